"""Which Python packages a job needs, and the first that is not there, before anything heavy is imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Iterator

from .errors import MissingPackage
from .job import Job


def needed(job: Job, weights: bool) -> Iterator[tuple[str, str, str]]:
    """(module, why, what to give pip), in the order in which they would be missed."""
    planned = {
        name: str(job.versions.get(name, "")).partition("+")[0] for name in ("torch", "deepspeed", "transformers")
    }

    def pinned(name: str) -> str:
        return f"{name}=={planned[name]}" if planned[name] else name

    yield "torch", "the probe runs in it", pinned("torch")
    yield "deepspeed", "it is what the probe measures", pinned("deepspeed")
    yield "transformers", "the model's class is from there", pinned("transformers")
    if weights:
        yield "accelerate", "transformers loads weights under DeepSpeed with it", "accelerate"
    if job.workload.adapters:
        yield "peft", f"--finetune {job.workload.finetune} makes its adapters with it", "peft"
    if job.workload.finetune == "qlora":
        yield "bitsandbytes", "QLoRA keeps the weights in its 4 bits", "bitsandbytes"
    if job.workload.optimizer == "bitsandbytes-adamw8bit":
        yield "bitsandbytes", "the 8-bit Adam of the plan is from there", "bitsandbytes"
    if job.workload.kernels:
        yield "liger_kernel", "the plan uses its kernels: " + ", ".join(job.workload.kernels), "liger-kernel"
    if job.workload.attention == "flash":
        yield "flash_attn", "the plan uses its attention", "flash-attn"


def require(job: Job, weights: bool = False) -> None:
    """Raises MissingPackage for the first that is not there."""
    for module, why, install in needed(job, weights):
        if importlib.util.find_spec(module) is None:
            raise MissingPackage(module, why, install)


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def differing_versions(job: Job) -> list[str]:
    """Where what is installed is not what was predicted for: one line each."""
    said = []
    for name in ("torch", "deepspeed", "transformers"):
        planned, found = str(job.versions.get(name) or "").partition("+")[0], (version(name) or "").partition("+")[0]
        if planned and found and not (found + ".").startswith(planned + "."):
            said.append(f"{name} {found} is installed, the prediction is for {planned}")
    return said
