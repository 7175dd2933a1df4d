#!/usr/bin/env python3
"""Measure many runs with the probe, one after another or side by side, importing torch and DeepSpeed once for all.

    python3 validate/deepspeed/measure_many.py JOBS --out FOLDER

JOBS holds the arguments of one `probe.py` run a line; `#` begins a comment. Runs with `--stand-in` share the GPUs,
--side-by-side to each; the others get every GPU they need to themselves, one run at a time, so that their times can be
trusted. A stand-in that runs out of memory beside others, without a limit of its own (--capacity), says nothing and is not
counted: run it alone. FOLDER gets ID.json (and ID.rank1.json, ...), ID.log, and records.jsonl with every record that ended in ok or
oom. An ID that is there already is not run again. Exit codes: 0 all measured, 1 some not, 2 input error.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import queue
import shlex
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import probe  # noqa: E402
from zplan_probe.errors import ProbeError  # noqa: E402
from zplan_probe.measurement import path_of, write_whole  # noqa: E402
from zplan_probe.run import INPUT_ERROR  # noqa: E402

# What a run imports before it touches the GPU: a fork inherits it. None of them starts CUDA by being imported, as long
# as torch looks for GPUs through NVML.
PRELOADED = ["torch", "torch.testing._internal.distributed.fake_pg", "transformers.models.qwen3", "deepspeed"]
HOST_FIGURES = ("host_rss_bytes", "host_rss_peak_bytes")


@dataclass(frozen=True)
class Request:
    """One line of JOBS."""

    id: str
    arguments: tuple[str, ...]
    world: int  # processes of its own: 1 for a stand-in
    stand_in: bool


def request_of(line: str, where: str) -> Request:
    arguments = shlex.split(line, comments=True)
    try:
        options = probe.parser().parse_args(arguments)
    except SystemExit:
        raise ProbeError(where, "is no line of probe.py's arguments", "see probe.py --help")
    job = probe.job_of(options)
    return Request(options.id or job.id, tuple(arguments), 1 if options.stand_in else job.world_size, options.stand_in)


def requests_of(path: str) -> list[Request]:
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ProbeError(path, error.strerror or "cannot be read", "name a file with the arguments of one run a line")
    found = [request_of(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if shlex.split(line, True)]
    names = [request.id for request in found]
    for name in names:
        if names.count(name) > 1:
            raise ProbeError(path, f"two runs are named {name}", "give each its own --id")
    return found


def rank_of_run(arguments: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    """In a process of its own: the probe, with its output in a file."""
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(environment)
    sys.exit(probe.main(arguments))


class Runner:
    """Starts the processes of runs and waits for them."""

    def __init__(self, out: pathlib.Path, fresh: bool, limit: float, side_by_side: int) -> None:
        self.out, self.limit, self.port, self.lock = out, limit, 29700, threading.Lock()
        self.side_by_side = side_by_side
        self.forked = not fresh
        self.context: Any = multiprocessing.get_context("spawn" if fresh else "forkserver")
        if not fresh:
            self.context.set_forkserver_preload(PRELOADED)

    def next_port(self) -> int:
        with self.lock:
            self.port += 1
            return self.port

    def start(self, request: Request, rank: int, port: int, gpu: str | None) -> Any:
        environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        if not request.stand_in:
            world = str(request.world)
            environment.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=world, LOCAL_WORLD_SIZE=world)
        log = self.out / (f"{request.id}.log" if rank == 0 else f"{request.id}.rank{rank}.log")
        arguments = [*request.arguments, "--out", str(self.out / f"{request.id}.json"), "--id", request.id]
        process = self.context.Process(target=rank_of_run, args=(arguments, environment, str(log)))
        with self.lock:  # the fork server takes one request at a time
            process.start()
        return process

    def measure(self, request: Request, gpu: str | None = None, until: float = float("inf")) -> None:
        """Runs every rank of a request. A run that takes too long is ended with all its ranks."""
        began, port = time.monotonic(), self.next_port()
        processes = [self.start(request, rank, port, gpu) for rank in range(request.world)]
        end = min(began + self.limit, until)
        while any(process.is_alive() for process in processes):
            died = any(process.exitcode not in (None, 0) for process in processes)
            if died:  # the others wait for it in a collective; an out-of-memory error reaches all within seconds
                end = min(end, time.monotonic() + 10)
            if time.monotonic() > end:
                for process in processes:
                    process.kill()
            time.sleep(0.1)
        codes = ", ".join(sorted({str(process.exitcode) for process in processes}))
        print(f"{request.id}: exit code {codes}, {time.monotonic() - began:.1f} s", flush=True)
        self.finish(request)

    def finish(self, request: Request) -> None:
        """A forked process shares pages with its server: its resident bytes are not those of a run of its own."""
        for rank in range(request.world if self.forked else 0):
            path = path_of(str(self.out / f"{request.id}.json"), rank, request.stand_in)
            if path.exists():
                record = json.loads(path.read_text(encoding="utf-8"))
                for phase in record["phases"]:
                    for name in HOST_FIGURES:
                        phase.pop(name, None)
                write_whole(path, json.dumps(record, indent=1) + "\n")

    def measured(self, request: Request) -> list[Any]:
        """The records of a run's ranks that ended as a run of its own would: ok, or out of memory."""
        paths = [path_of(str(self.out / f"{request.id}.json"), rank, request.stand_in) for rank in range(request.world)]
        found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
        crowded = request.stand_in and self.side_by_side > 1

        def counts(record: Any) -> bool:
            limited = record["capacity_limit_bytes"] is not None
            return record["outcome"] == "ok" or (record["outcome"] == "oom" and (limited or not crowded))

        return [record for record in found if counts(record)]


def measure_all(runner: Runner, requests: Sequence[Request], gpus: int, until: float) -> None:
    real = [request for request in requests if not request.stand_in]
    for request in real:
        if time.monotonic() < until:
            runner.measure(request, until=until)
    places: queue.Queue[str | None] = queue.Queue()
    for _ in range(runner.side_by_side):
        for gpu in range(max(gpus, 1)):
            places.put(str(gpu) if gpus else None)

    def alone(request: Request) -> None:
        gpu = places.get()
        try:
            if time.monotonic() < until:
                runner.measure(request, gpu, until)
        finally:
            places.put(gpu)

    with concurrent.futures.ThreadPoolExecutor(places.qsize()) as pool:
        list(pool.map(alone, [request for request in requests if request.stand_in]))  # raises what a run raised


def parser() -> argparse.ArgumentParser:
    said = argparse.ArgumentParser(prog="measure_many.py", description=str(__doc__).split("\n\n")[0])
    said.add_argument("jobs", metavar="JOBS", help="a file with the arguments of one probe.py run a line")
    said.add_argument("--out", required=True, metavar="FOLDER", help="where records and logs go")
    said.add_argument("--gpus", type=probe.count, default=1, help="of this machine, for stand-ins (0: none)")
    said.add_argument("--side-by-side", type=probe.positive, default=1, help="stand-ins at a time on one GPU")
    said.add_argument("--limit", type=float, default=240, help="seconds for one run")
    said.add_argument("--deadline", type=float, default=float("inf"), help="seconds for all; the rest is not run")
    said.add_argument(
        "--fresh",
        action="store_true",
        help="import everything anew for each run: slower, but resident host memory is that of a run of its own",
    )
    return said


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    until = time.monotonic() + options.deadline
    try:
        requests = requests_of(options.jobs)
        out = pathlib.Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
    except (ProbeError, OSError) as error:
        print(f"measure_many.py: error: {error}", file=sys.stderr)
        return INPUT_ERROR
    runner = Runner(out, options.fresh, options.limit, options.side_by_side)
    waiting = [request for request in requests if not runner.measured(request)]
    measure_all(runner, waiting, options.gpus, until)
    found = {request.id: runner.measured(request) for request in requests}
    lines = [json.dumps(record) + "\n" for records in found.values() for record in records]
    write_whole(out / "records.jsonl", "".join(lines))
    missing = [name for name, records in found.items() if not records]
    print(f"{len(found) - len(missing)} of {len(found)} measured" + "".join(f"\nnot measured: {m}" for m in missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
