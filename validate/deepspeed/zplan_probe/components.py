"""What DeepSpeed holds between two steps, counted from its tensors: the parts that last from step to step.

Each storage on the device counts once, in the first part that names it.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator

import torch


def storages(tensors: Iterable[Any], device: str) -> dict[int, int]:
    """Bytes by address of the storages on the device."""
    found = {}
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device.type == device and tensor.numel() > 0:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found


def parameters(engine: Any) -> Iterator[Any]:
    for parameter in engine.module.parameters():
        yield parameter.data
        yield getattr(parameter, "ds_tensor", None)
        yield getattr(parameter, "ds_secondary_tensor", None)
    yield from engine.module.buffers()


def nested(value: Any) -> Iterator[Any]:
    """Tensors in lists and dicts, as DeepSpeed keeps its averaged gradients."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from nested(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from nested(part)


def optimizer_states(engine: Any) -> Iterator[Any]:
    optimizer = engine.optimizer
    inner = getattr(optimizer, "optimizer", optimizer)
    for group in getattr(inner, "param_groups", []):
        yield from group["params"]
    for state in getattr(inner, "state", {}).values():
        yield from nested(state)
    for name in ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition"):
        yield from nested(getattr(optimizer, name, None))


def gradients(engine: Any) -> Iterator[Any]:
    optimizer = engine.optimizer
    for parameter in engine.module.parameters():
        yield parameter.grad
    for name in (
        "averaged_gradients",
        "all_grad_tensors",
        "fp32_groups_gradients_flat",
        "grad_partitions_flat_buffer",
        "_DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition",
    ):
        yield from nested(getattr(optimizer, name, None))


def held(engine: Any, device: str) -> dict[str, int]:
    """Bytes by component. They leave out buckets and whatever else is alive."""
    seen: set[int] = set()
    said = {}
    for name, tensors in (
        ("parameters", parameters(engine)),
        ("optimizer", optimizer_states(engine)),
        ("gradients", gradients(engine)),
    ):
        found = {at: size for at, size in storages(tensors, device).items() if at not in seen}
        seen.update(found)
        said[name] = sum(found.values())
    return said
