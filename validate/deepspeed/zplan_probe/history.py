"""Recording torch's allocator (zplan.history/1): every request and release, in order, with what asked for it.

`zplan replay` reads the file; docs/files.md#histories has its keys.
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import re
import time
from typing import Any, Iterable

from .meter import Figures

ENTRIES = 4_000_000  # of the ring that torch records into
FRAMES = 5  # Python frames an allocation keeps
OPERATORS = 8
PACKAGES = (
    "deepspeed/",
    "transformers/",
    "peft/",
    "bitsandbytes/",
    "liger_kernel/",
    "torch/optim/",
    "torch/distributed/",
    "torch/utils/checkpoint",
    "torch/nn/utils/",
    "torch/nn/functional",
    "torch/nn/modules/",
    "zplan_probe/",
)
SHORT = {"load": "model", "init": "engine", "forward": "fwd", "backward": "bwd"}  # names of marks

OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)")
NODE = re.compile(r"generated::(\w+Backward\w*)::apply|autograd::(AccumulateGrad|CopySlices|PyNode)::apply")


def context_of(frames: Iterable[dict[str, Any]]) -> list[Any]:
    """[torch operators, innermost first], autograd node or None, [Python frames, innermost first]."""
    operators: list[str] = []
    node, python = None, []
    for frame in frames:
        if (found := OPERATOR.search(frame["name"])) and (not operators or operators[-1] != found[1]):
            operators.append(found[1])
        if node is None and (found := NODE.search(frame["name"])):
            node = found[1] or found[2]
        if frame["filename"].endswith(".py") and len(python) < FRAMES:
            begins = [
                frame["filename"].rfind("/" + package) for package in PACKAGES if "/" + package in frame["filename"]
            ]
            if begins:
                python.append(f"{frame['filename'][max(begins) + 1:]}:{frame['line']} {frame['name']}")
    return [operators[:OPERATORS], node, python]


def mark_name(phase: str, step: int | None, micro_step: int | None) -> str:
    """ "s0g1.bwd" is step 0, micro-step 1, backward."""
    short = SHORT.get(phase, phase)
    return short if step is None else f"s{step}g{micro_step}.{short}"


class History:
    """Begin before the first allocation, mark the ends of the phases, write at the end."""

    def __init__(self) -> None:
        import torch

        self.torch, self.marks, self.trims = torch, [], []  # type: ignore[var-annotated]
        torch.cuda.memory._record_memory_history(context="alloc", stacks="all", max_entries=ENTRIES)
        empty = torch.cuda.empty_cache

        def empty_cache() -> None:  # torch records what it frees, not that it was called
            self.trims.append(time.time_ns() // 1000)
            empty()

        torch.cuda.empty_cache = empty_cache

    def mark(self, phase: str, figures: Figures, step: int | None, micro_step: int | None) -> None:
        names = {"allocated": "alloc", "allocated_peak": "alloc_peak"}
        self.marks.append(
            {
                "name": mark_name(phase, step, micro_step),
                "at_us": figures.at_us,
                "pinned": figures.pinned,
                **{names.get(key, key): value for key, value in figures.device.items()},
            }
        )

    def write(self, path: str, record: dict[str, Any]) -> None:
        snapshot = self.torch.cuda.memory._snapshot()
        said = {
            "schema": "zplan.history/1",
            "case": {"id": record["id"], "workload": record["workload"]},
            "versions": record["versions"],
            "ds_config": record["ds_config"],
            "alloc_conf": record["alloc_conf"],
            "marks": self.marks,
            "empty_cache_us": self.trims,
            **compact(snapshot, self.torch.cuda.current_device()),
        }
        beside = pathlib.Path(path + ".partial")
        with gzip.open(beside, "wt") as file:
            json.dump(said, file, separators=(",", ":"))
        os.replace(beside, path)


def compact(snapshot: dict[str, Any], device: int) -> dict[str, Any]:
    """trace, contexts and segments of one device; equal contexts stand once."""
    contexts: list[Any] = []
    index: dict[str, int] = {}
    trace = []
    for entry in snapshot["device_traces"][device]:
        at = None
        if entry["action"] == "alloc" and entry.get("frames"):
            context = context_of(entry["frames"])
            at = index.setdefault(json.dumps(context), len(contexts))
            if at == len(contexts):
                contexts.append(context)
        trace.append(
            [
                entry["action"],
                entry.get("addr", entry.get("device_free")),
                entry["size"],
                entry["stream"],
                entry.get("time_us"),
                at,
            ]
        )
    segments = [
        {
            "address": segment["address"],
            "total_size": segment["total_size"],
            "stream": segment["stream"],
            "segment_type": segment["segment_type"],
            "is_expandable": segment.get("is_expandable"),
            "blocks": [
                [block.get("address"), block["size"], block.get("requested_size"), block["state"]]
                for block in segment["blocks"]
            ],
        }
        for segment in snapshot["segments"]
        if segment.get("device", device) == device
    ]
    return {"contexts": contexts, "trace": trace, "segments": segments}
