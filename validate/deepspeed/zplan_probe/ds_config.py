"""The ds_config as DeepSpeed gets it: every "auto" filled in as the Trainer does, batch sizes that agree."""

from __future__ import annotations

import copy
from typing import Any, Mapping

from .errors import ProbeError

Json = Mapping[str, Any]


def settled(ds_config: Json, where: str, hidden_size: int, trainer: Json, world_size: int) -> dict[str, Any]:
    """A copy without "auto" (transformers, integrations/deepspeed.py) and with train_batch_size for this world.

    `trainer`: values by ds_config key that the Trainer's arguments give, and bf16, fp16 as booleans.
    """
    ds = copy.deepcopy(dict(ds_config))
    sizes = {
        "reduce_bucket_size": hidden_size * hidden_size,
        "stage3_prefetch_bucket_size": int(0.9 * hidden_size * hidden_size),
        "stage3_param_persistence_threshold": 10 * hidden_size,
    }

    def fill(section: dict[str, Any], at: str) -> None:
        for key, value in list(section.items()):
            if isinstance(value, dict):
                fill(value, f"{at}/{key}")
            elif value == "auto":
                section[key] = filled(key, at)

    def filled(key: str, at: str) -> Any:
        if key == "enabled":
            return bool(trainer.get(at.rsplit("/", 1)[1], at.endswith("bf16")))
        if key in sizes:
            return sizes[key]
        if key == "train_batch_size":
            return None
        if key in trainer:
            return trainer[key]
        raise ProbeError(
            f"{where}:{at}/{key}",
            '"auto", and nothing says what the Trainer would fill in',
            "write the number, or keep launch.sh beside the file",
        )

    fill(ds, "")
    micro, accumulate, whole = (
        ds.get(key) for key in ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")
    )
    if micro is None and whole is not None:
        micro = whole // ((accumulate or 1) * world_size)
    if not micro:
        raise ProbeError(
            f"{where}:/train_micro_batch_size_per_gpu", "the micro-batch is not said", "write it into the file"
        )
    if accumulate is None:
        accumulate = whole // (micro * world_size) if whole else 1
    ds.update(train_micro_batch_size_per_gpu=micro, gradient_accumulation_steps=accumulate)
    if whole is not None or "train_batch_size" in ds:
        ds["train_batch_size"] = micro * accumulate * world_size
    return ds
