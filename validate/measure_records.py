#!/usr/bin/env python3
"""Measure the runs of records again with zplan-validate: real ranks one run at a time, stand-ins side by side.

    python3 validate/measure_records.py tests/truth/grid.jsonl --program zplan-validate --out FOLDER

Of every record (zplan.measurement/1) that zplan-validate can run, its inputs are taken; FOLDER gets ID.json, ID.log and
records.jsonl, whose ids are those of the records with `.native` behind. A record of real ranks needs as many GPUs; only
rank 0's record is kept. What is there already is not run again. Only runs that ended as they would alone are kept: ok,
or out of memory, but not a stand-in that shares its GPU and has no capacity limit of its own. Exit codes: 0 all measured
or refused by zplan-validate as not built, 1 some not, 2 input error.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import subprocess
import sys
import time
from typing import Any, Mapping, Sequence

Record = Mapping[str, Any]
NOT_BUILT = 2  # zplan-validate's exit code for inputs that it does not run


def command(record: Record, program: str, folder: pathlib.Path, steps: int, timed: int) -> list[str]:
    like = folder / f"{record['id']}.like.json"
    like.write_text(json.dumps(record), encoding="utf-8")
    said = [program, "--like", str(like), "--steps", str(steps), "--id", f"{record['id']}.native",
            "--out", str(folder / f"{record['id']}.json")]
    if record["ranks"] == "fake":
        return [*said, "--stand-in", "--rank", str(record["rank"])]
    return [*said, "--timed-steps", str(timed)]


def measured(record: Record, options: argparse.Namespace) -> Record | None:
    """What zplan-validate wrote of this run, if it counts."""
    written = pathlib.Path(options.out) / f"{record['id']}.json"
    found = json.loads(written.read_text(encoding="utf-8")) if written.exists() else dict(outcome="missing")
    crowded = record["ranks"] == "fake" and options.side_by_side > 1 and record.get("capacity_limit_bytes") is None
    return found if found["outcome"] == "ok" or (found["outcome"] == "oom" and not crowded) else None


def run(record: Record, options: argparse.Namespace, gpu: str | None = None) -> int:
    folder = pathlib.Path(options.out)
    if measured(record, options):
        return 0
    environment = dict(os.environ) if gpu is None else dict(os.environ, CUDA_VISIBLE_DEVICES=gpu)
    begin = time.monotonic()
    with open(folder / f"{record['id']}.log", "w", encoding="utf-8") as log:
        try:
            code = subprocess.run(command(record, options.program, folder, options.steps, options.timed_steps),
                                  stdout=log, stderr=subprocess.STDOUT, timeout=options.limit, env=environment).returncode
        except subprocess.TimeoutExpired:
            code = 3
    print(f"{record['id']}: exit code {code}, {time.monotonic() - begin:.1f} s", flush=True)
    return code


def measure(records: Sequence[Record], options: argparse.Namespace) -> list[int]:
    until = time.monotonic() + options.deadline
    codes = [run(record, options) for record in records if record["ranks"] == "nccl" and time.monotonic() < until]
    places: queue.Queue[str] = queue.Queue()
    for _ in range(options.side_by_side):
        for gpu in range(options.gpus):
            places.put(str(gpu))

    def alone(record: Record) -> int:
        gpu = places.get()
        try:
            return run(record, options, gpu) if time.monotonic() < until else 3
        finally:
            places.put(gpu)

    with concurrent.futures.ThreadPoolExecutor(places.qsize()) as pool:
        return codes + list(pool.map(alone, [record for record in records if record["ranks"] == "fake"]))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="measure_records.py", description=str(__doc__).split("\n\n")[0])
    parser.add_argument("records", help="a .jsonl of records")
    parser.add_argument("--program", default="zplan-validate")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=3, help="measured phase by phase (default 3)")
    parser.add_argument("--timed-steps", type=int, default=3, help="of real ranks (default 3)")
    parser.add_argument("--gpus", type=int, default=1, help="of this machine, for stand-ins")
    parser.add_argument("--side-by-side", type=int, default=1, help="stand-ins at a time on one GPU")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one run")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds for all; the rest is not run")
    options = parser.parse_args(arguments)
    try:
        lines = pathlib.Path(options.records).read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines if line.strip()]
        kept = [record for record in records if record["ranks"] == "fake" or record["rank"] == 0]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"measure_records.py: error: {options.records}: {error}\n  fix: name a .jsonl of zplan.measurement/1 records",
              file=sys.stderr)
        return 2
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    refused = measure(kept, options).count(NOT_BUILT)
    found = [result for record in kept if (result := measured(record, options))]
    (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in found), encoding="utf-8")
    print(f"{len(found)} of {len(kept)} measured, {refused} refused")
    return 1 if len(found) + refused < len(kept) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
