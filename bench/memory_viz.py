#!/usr/bin/env python3
"""How long torch's own offline reader, torch/cuda/_memory_viz.py, takes for a recorded history.

  memory_viz.py HISTORY.json.gz [MEMORY_VIZ.py] [RUNS]

Times `trace`, which walks the events and keeps the table of segments: what `zplan replay` and
bench/replay_bench.cpp do on the same file. MEMORY_VIZ.py defaults to that of the installed torch.
"""
import contextlib
import gzip
import importlib.util
import io
import json
import sys
import time


def snapshot_of(history):
    """The dictionary torch.cuda.memory._snapshot() returns, without what `trace` does not read."""
    def entry(action, address, size, stream, time_us, _context):
        key = "device_free" if action == "oom" else "addr"
        return {"action": action, key: address, "size": size, "stream": stream, "time_us": time_us, "frames": []}

    def segment(s):
        blocks = [{"size": b[1], "requested_size": b[2], "state": b[3], "frames": []} for b in s["blocks"]]
        return {**s, "device": 0, "blocks": blocks}

    return {"device_traces": [[entry(*e) for e in history["trace"]]],
            "segments": [segment(s) for s in history["segments"]]}


def main():
    path = sys.argv[1]
    viz = sys.argv[2] if len(sys.argv) > 2 else importlib.util.find_spec("torch").submodule_search_locations[0] + "/cuda/_memory_viz.py"
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    spec = importlib.util.spec_from_file_location("memory_viz", viz)
    memory_viz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(memory_viz)
    with gzip.open(path, "rt") as file:
        snapshot = snapshot_of(json.load(file))
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            memory_viz.trace(snapshot)
        best = min(best, time.process_time() - start)
    events = len(snapshot["device_traces"][0])
    print("%s: %d entries in %.1f ms, %.3f million a second" % (path, events, best * 1e3, events / best / 1e6))


if __name__ == "__main__":
    main()
