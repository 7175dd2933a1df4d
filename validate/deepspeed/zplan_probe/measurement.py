"""The record of a run (zplan.measurement/1), whole on the disk at all times: every change goes to a file beside it that
then takes its place. `outcome` is incomplete while the run lasts, then ok, oom or failed."""

from __future__ import annotations

import json
import os
import pathlib
import platform
from typing import Any

from . import packages
from .errors import ProbeError
from .job import Job, workload_json
from .meter import Figures, host_cores, host_memory
from .ranks import Place

PACKAGES = ("torch", "deepspeed", "transformers", "accelerate", "peft", "bitsandbytes", "liger-kernel")


def path_of(out: str, rank: int, alone: bool) -> pathlib.Path:
    """Rank 0's record is OUT; the other real ranks' stand beside it: measurements.rank3.json."""
    path = pathlib.Path(out)
    return path if rank == 0 or alone else path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


def write_whole(path: pathlib.Path, text: str) -> None:
    beside = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise ProbeError(f"--out {path}", error.strerror or "cannot be written", "name a file in a folder to write to")


class Measurement:
    """One record, written anew after each phase."""

    def __init__(self, job: Job, place: Place, facts: dict[str, Any], path: pathlib.Path) -> None:
        self.path, self.timed, self.last = path, place.kind != "fake", 0.0
        found = {name.replace("-", "_"): packages.version(name) for name in PACKAGES}
        self.said: dict[str, Any] = {
            "schema": "zplan.measurement/1",
            "id": job.id,
            "model": job.model,
            "world_size": place.world_size,
            "rank": place.rank,
            "ranks": place.kind,
            "workload": workload_json(job),
            "alloc_conf": job.alloc_conf,
            "capacity_limit_bytes": job.capacity_bytes,
            "ds_config": dict(job.ds_config),
            "versions": {
                **{name: text for name, text in found.items() if text},
                "python": platform.python_version(),
                **facts,
            },
            "outcome": "incomplete",
            "phases": [],
        }
        if self.timed:  # with a stand-in nothing is sent, and neighbours may share the card
            self.said["machine"] = {
                "gpu": facts.get("gpu", "none"),
                "gpus": place.local_ranks,
                "nodes": max(1, place.world_size // place.local_ranks),
                "host_cores": host_cores(),
                "host_memory_bytes": host_memory(),
            }
            if job.interconnect:
                self.said["machine"]["interconnect"] = job.interconnect
        self.write()

    def write(self) -> None:
        write_whole(self.path, json.dumps(self.said, indent=1) + "\n")

    def set(self, **said: Any) -> None:
        self.said.update(said)

    def skipped(self, steps: int) -> None:
        """Steps that the loss scaler skipped since gradients overflowed: the first ones, while it finds its scale."""
        if steps > 0:
            self.said["workload"]["skipped_steps"] = steps

    def add(self, phase: str, figures: Figures, step: int | None, micro_step: int | None) -> None:
        entry: dict[str, Any] = {} if step is None else {"step": step, "micro_step": micro_step}
        device = figures.device
        entry.update(
            phase=phase,
            allocated_bytes=device["allocated"],
            allocated_peak_bytes=device["allocated_peak"],
            reserved_bytes=device["reserved"],
            reserved_peak_bytes=device["reserved_peak"],
            active_peak_bytes=device["active_peak"],
            inactive_split_bytes=device["inactive_split"],
            alloc_retries=device["retries"],
            host_rss_bytes=figures.rss,
            host_rss_peak_bytes=figures.rss_peak,
            host_pinned_bytes=figures.pinned.get("allocated_bytes.current", 0),
        )
        if self.timed:
            if figures.device_used is not None:
                entry["device_used_bytes"] = figures.device_used
            entry["seconds"] = round(figures.seconds - self.last, 4)
        self.last = figures.seconds
        self.said["phases"].append(entry)
        self.write()

    def finish(self, outcome: str, **said: Any) -> None:
        self.said.update(outcome=outcome, **said)
        self.write()
