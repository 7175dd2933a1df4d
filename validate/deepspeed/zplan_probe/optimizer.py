"""The optimizer that deepspeed.initialize is given, where the ds_config does not make one."""

from __future__ import annotations

import re
from typing import Any

import torch

from .job import Job

# Parameters without weight decay (transformers, Trainer.get_decay_parameter_names).
NO_DECAY = re.compile(r"bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)", re.I)


def trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def groups(model: torch.nn.Module, count: int) -> list[dict[str, Any]]:
    """One group, or the Trainer's two: with and without weight decay."""
    if count == 1:
        return [{"params": trained(model)}]
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    decaying = [parameter for name, parameter in named if not NO_DECAY.search(name)]
    others = [parameter for name, parameter in named if NO_DECAY.search(name)]
    return [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]


def arguments_of(job: Job, model: torch.nn.Module) -> dict[str, Any]:
    """model_parameters or optimizer, as accelerate hands them to deepspeed.initialize."""
    kind, learning_rate = job.workload.optimizer, 1e-5
    if kind == "deepspeed-adamw":
        return {"model_parameters": trained(model)}
    parts = groups(model, job.workload.parameter_groups)
    if kind == "bitsandbytes-adamw8bit":
        import bitsandbytes

        return {"optimizer": bitsandbytes.optim.AdamW8bit(parts, lr=learning_rate)}
    how = {"fused": True} if kind == "torch-adamw-fused" else {"foreach": True}
    return {"optimizer": torch.optim.AdamW(parts, lr=learning_rate, **how)}
