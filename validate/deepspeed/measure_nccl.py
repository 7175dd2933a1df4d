#!/usr/bin/env python3
"""Measure NCCL between the GPUs of this machine: device memory by step of its start, seconds by size, and how a
collective and a matrix product that run side by side slow each other; as NCCL chooses, by number of channels, and
without direct access between GPUs.

    python3 validate/deepspeed/measure_nccl.py --out nccl.json

Needs two GPUs or more, PyTorch with CUDA and nvidia-ml-py; nothing else may use the GPUs. Three minutes on two GPUs.
The JSON (zplan.nccl/1) holds one entry a setting. Memory is what the driver counts for GPU 0, before and after each
step. `channels` and `allocations` are from NCCL's log (NCCL_DEBUG_SUBSYS=INIT,ALLOC): what it says of each channel's
structures on the device, [place in its source, bytes, how often], all communicators together. Each of them takes a
granule of 2 MiB; the buffers of connections are not in the log. Times are medians of CUDA events over random data.
"""
from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time
from typing import Any, Callable

MIB = 1 << 20
KINDS = ("all_reduce", "all_gather", "reduce_scatter")
SIZES = (8 << 10, 64 << 10, 512 << 10, 2 * MIB, 8 * MIB, 32 * MIB, 96 * MIB, 128 * MIB, 512 * MIB, 1024 * MIB)
OVERLAP_SIZES = (8 * MIB, 32 * MIB, 96 * MIB, 512 * MIB)


def channels(count: int) -> dict[str, str]:
    return {"NCCL_MIN_NCHANNELS": str(count), "NCCL_MAX_NCHANNELS": str(count)}


# Name, environment of NCCL, and whether times are taken too.
SETTINGS: list[tuple[str, dict[str, str], bool]] = [
    ("default", {}, True),
    *((f"{count} channels", channels(count), count in (4, 8, 16)) for count in (1, 2, 4, 8, 16, 32)),
    ("buffers of 1 MiB", {"NCCL_BUFFSIZE": str(MIB)}, False),
    ("without direct access", {"NCCL_P2P_DISABLE": "1"}, True),
    ("without direct access, 2 channels", {"NCCL_P2P_DISABLE": "1", **channels(2)}, False),
]


def median_seconds(work: Callable[[], Any], repeats: int = 9, warm: int = 3) -> float:
    from measure_rates import seconds_on_gpu  # it imports PyTorch, which only the ranks do here

    return seconds_on_gpu(work, repeats, warm)


def collective(kind: str, size: int, world: int) -> Callable[[], Any]:
    """One collective whose whole buffer has `size` bytes of bf16."""
    import torch
    import torch.distributed as dist

    full = torch.randn(size // 2, device="cuda").bfloat16()
    part = full[: size // 2 // world].clone()
    return {
        "all_reduce": lambda: dist.all_reduce(full),
        "all_gather": lambda: dist.all_gather_into_tensor(full, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, full),
    }[kind]


def overlap_row(kind: str, size: int, world: int) -> dict[str, Any]:
    """Matrix products on one stream, collectives on another: alone, then together from a common start. `*_together`
    ends where that stream ends, while the other may still run; counts are chosen so that both take about 30 ms."""
    import torch

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    call = collective(kind, size, world)
    product = median_seconds(lambda: torch.mm(a, a, out=out), 5, 2)
    single = median_seconds(call, 5, 2)
    # Every rank issues as many collectives as rank 0.
    counts = torch.tensor([max(2, round(0.03 / product)), max(2, round(0.03 / single))], device="cuda")
    torch.distributed.broadcast(counts, 0)
    products, calls = (int(count) for count in counts.tolist())
    side = torch.cuda.Stream()

    def compute() -> None:
        for _ in range(products):
            torch.mm(a, a, out=out)

    def communicate() -> None:
        for _ in range(calls):
            call()

    row: dict[str, Any] = dict(kind=kind, bytes=size, products=products, collectives=calls,
                               compute_alone=median_seconds(compute, 3, 1), collective_alone=median_seconds(communicate, 3, 1))
    ends = []
    for _ in range(4):
        torch.cuda.synchronize()
        torch.distributed.barrier()
        torch.cuda.synchronize()
        begin, computed, communicated = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        begin.record()
        side.wait_event(begin)
        with torch.cuda.stream(side):
            communicate()
            communicated.record(side)
        compute()
        computed.record()
        torch.cuda.synchronize()
        ends.append((begin.elapsed_time(computed) / 1e3, begin.elapsed_time(communicated) / 1e3))
    row["compute_together"], row["collective_together"] = (statistics.median(times) for times in zip(*ends[1:]))
    return row


def memory_steps(rank: int, world: int) -> list[list[Any]]:
    """[step, bytes that the driver counts for this GPU after it]."""
    import pynvml
    import torch
    import torch.distributed as dist

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(rank)
    rows: list[list[Any]] = []

    def note(step: str) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        rows.append([step, pynvml.nvmlDeviceGetMemoryInfo(handle).used])

    note("idle")
    torch.cuda.set_device(rank)
    torch.zeros(1, device="cuda")
    note("context")
    full = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda").view(torch.bfloat16).fill_(1)
    small = torch.ones(4096, dtype=torch.bfloat16, device="cuda")
    note("buffers of this script")
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    note("process group")
    for name, whole in (("8 KiB", small), ("512 MiB", full)):
        part = whole[: whole.numel() // world]
        dist.all_reduce(whole)
        note(f"all-reduce of {name}")
        dist.all_gather_into_tensor(whole, part)
        note(f"all-gather of {name}")
        dist.reduce_scatter_tensor(part, whole)
        note(f"reduce-scatter of {name}")
    dist.broadcast(full, 0)
    note("broadcast")
    dist.all_to_all_single(full, full.clone())
    torch.cuda.empty_cache()
    note("all-to-all")
    for name in ("second", "third"):
        group = dist.new_group(list(range(world)))
        note(f"{name} group")
        dist.all_reduce(full, group=group)
        note(f"{name} group, all-reduce")
        dist.all_gather_into_tensor(full, full[: full.numel() // world], group=group)
        note(f"{name} group, all-gather")
    return rows


def of_rank(rank: int, world: int, port: int, timed: bool, environment: dict[str, str], folder: str) -> None:
    os.environ.update(environment, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    if rank == 0:
        os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,ALLOC", NCCL_DEBUG_FILE=f"{folder}/nccl.log")
    import torch
    import torch.distributed as dist

    result: dict[str, Any] = dict(memory=memory_steps(rank, world), nccl=list(torch.cuda.nccl.version()))
    if timed:
        result["seconds"] = [[kind, size, median_seconds(collective(kind, size, world))] for size in SIZES for kind in KINDS]
        result["overlap"] = [overlap_row(kind, size, world) for size in OVERLAP_SIZES for kind in ("all_gather", "reduce_scatter")]
    if rank == 0:
        pathlib.Path(folder, "result.json").write_text(json.dumps(result), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def said_by_nccl(path: pathlib.Path) -> dict[str, Any]:
    """Of NCCL's log: the channels of each communicator, and what was allocated on the device."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    placed = re.findall(r"(\S+:\d+)\s+Cuda Alloc Size (\d+)", text)
    counted = collections.Counter((place, int(size)) for place, size in placed)
    return dict(
        channels=sorted(set(re.findall(r"\d+ coll channels.*", text))),
        allocations=[[place, size, count] for (place, size), count in sorted(counted.items())],
    )


def measure(world: int, timed: bool, environment: dict[str, str], port: int, limit: float) -> dict[str, Any]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed"])
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=of_rank, args=(rank, world, port, timed, environment, folder)) for rank in range(world)]
        for rank in ranks:
            rank.start()
        end = time.monotonic() + limit
        for rank in ranks:
            rank.join(max(0.0, end - time.monotonic()))
        if any(rank.is_alive() for rank in ranks):
            for rank in ranks:
                rank.kill()
        codes = [rank.exitcode for rank in ranks]
        written = pathlib.Path(folder, "result.json")
        result = json.loads(written.read_text(encoding="utf-8")) if written.exists() else dict(failed=f"exit codes {codes}")
        return result | said_by_nccl(pathlib.Path(folder, "nccl.log"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default="nccl.json")
    parser.add_argument("--gpus", type=int, help="ranks, one a GPU (default: all)")
    parser.add_argument("--port", type=int, default=29651)
    parser.add_argument("--limit", type=float, default=90, help="seconds for one setting")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these settings alone")
    arguments = parser.parse_args()
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import torch

    world = arguments.gpus or torch.cuda.device_count()
    if world < 2:
        parser.error("two GPUs are needed: one alone has nobody to talk to")
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    name, driver = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlSystemGetDriverVersion()
    whole: dict[str, Any] = dict(schema="zplan.nccl/1", gpu=name, gpus=world, driver=driver, torch=torch.__version__,
                                 environment={k: v for k, v in os.environ.items() if k.startswith("NCCL_")}, settings=[])
    for at, (setting, environment, timed) in enumerate(SETTINGS):
        if arguments.only and setting not in arguments.only:
            continue
        begin = time.monotonic()
        result = measure(world, timed, environment, arguments.port + at, arguments.limit)
        whole["settings"].append(dict(setting=setting, environment=environment, **result))
        print(f"{setting}: {time.monotonic() - begin:.1f} s, {result.get('failed', 'measured')}", file=sys.stderr, flush=True)
        pathlib.Path(arguments.out).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 1 if any("failed" in setting for setting in whole["settings"]) else 0


if __name__ == "__main__":
    sys.exit(main())
