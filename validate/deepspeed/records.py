#!/usr/bin/env python3
"""Turns what the DeepSpeed probe wrote into measurement records (zplan.measurement/1), one a line.

    python3 validate/deepspeed/records.py RAW.jsonl... >> tests/truth/measured.jsonl

A raw result is one JSON object a line: the case that was asked for, the ds_config as DeepSpeed got it, versions,
and the figures of torch's allocator, torch's pinned host allocator and /proc/self/status at the end of each phase.
A result that ended in an error other than running out of memory is no measurement: it is named on stderr, left out,
and the exit code is 1.
"""
from __future__ import annotations

import json
import re
import sys
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

Json = Mapping[str, Any]

OPTIMIZERS = {
    "ds_adamw": "deepspeed-adamw",  # the ds_config's own: FusedAdam, or CPUAdam when offloaded
    "torch_fused": "torch-adamw-fused",
    "torch_foreach": "torch-adamw-foreach",
    "bnb_adamw8bit": "bitsandbytes-adamw8bit",
}
KERNELS = ("fused_linear_cross_entropy", "rms_norm", "rope", "swiglu")
PHASES = {"model": "load", "engine": "init", "fwd": "forward", "bwd": "backward", "save16": "save_16bit"}  # else as is
IN_A_STEP = re.compile(r"s(\d+)g(\d+)\.(fwd|bwd|step)$")


class NoMeasurement(Exception):
    """The run failed, and not for want of memory."""


class PhaseName(NamedTuple):
    """Where a raw phase belongs: its name in the record, and its step and micro-step if it is in one."""
    phase: str
    step: int | None = None
    micro_step: int | None = None


def phase_name(raw: str) -> PhaseName:
    inside = IN_A_STEP.match(raw)
    if not inside:
        return PhaseName(PHASES.get(raw, raw))
    return PhaseName(PHASES.get(inside[3], inside[3]), int(inside[1]), int(inside[2]))


def recompute(case: Json) -> str:
    if not case.get("ckpt"):
        return "none"
    every = case.get("ckpt_kwargs", {}).get("every_n_layers", 1)
    return "full" if every == 1 else f"every-{every}"


def finetune(case: Json) -> str:
    if case.get("lora"):
        return "qlora" if case.get("qlora") else "lora"
    return "full" if case.get("freeze_layers") is None else "freeze"


def workload(case: Json) -> dict[str, Any]:
    """What was trained and how the script was written: what the ds_config does not say."""
    kernels = [name for name in KERNELS if case.get("liger", {}).get(name)]
    said: dict[str, Any] = {
        "seq_len": case["seq"],
        "micro_batch": case["mbs"],
        "grad_accum": case.get("ga", 1),
        "recompute": recompute(case),
        "recompute_impl": "reentrant" if case.get("reentrant") else "non-reentrant",
        "attention": case.get("attn", "sdpa"),
        "finetune": finetune(case),
        "lora_rank": case.get("lora"),
        "precision": case.get("dtype", "bf16"),  # of the module: torch_autocast stands in the ds_config
        "optimizer": OPTIMIZERS[case.get("opt", "ds_adamw")],
        "model_overrides": case.get("model_over", {}),
        "fused_loss": "fused_linear_cross_entropy" in kernels,
        "kernels": kernels,
        "load": case.get("load", "cpu"),
    }
    rare = {
        "parameter_groups": case.get("param_groups"),  # 2: the HF Trainer's decay and no-decay split
        "freeze_layers": case.get("freeze_layers"),  # these first layers and the embedding do not train
        "attention_mask": case.get("padded"),  # a mask with padding reaches the model
        "recompute_offload": case.get("ckpt_kwargs", {}).get("offload"),  # boundaries in host memory
        "lora_dropout": case.get("lora_dropout"),
        "adapter_autocast": case.get("peft_kwargs", {}).get("autocast_adapter_dtype"),  # false: adapters in the model's dtype
        "zero_init": case.get("zero_init"),  # false: built whole, then partitioned by deepspeed.initialize
    }
    said.update({key: value for key, value in rare.items() if value is not None})
    return said


def phase(raw: Json, before: Json | None, timed: bool, alone: bool) -> dict[str, Any]:
    name = phase_name(raw["name"])
    place = {} if name.step is None else {"step": name.step, "micro_step": name.micro_step}
    said: dict[str, Any] = {
        **place,
        "phase": name.phase,
        "allocated_bytes": raw["alloc"],
        "allocated_peak_bytes": raw["alloc_peak"],
        "reserved_bytes": raw["reserved"],
        "reserved_peak_bytes": raw["reserved_peak"],
        "active_peak_bytes": raw["active_peak"],
        "inactive_split_bytes": raw["inactive_split"],
        "alloc_retries": raw["retries"],
        "host_rss_bytes": raw["VmRSS"],
        "host_rss_peak_bytes": raw["VmHWM"],
        "host_pinned_bytes": (raw.get("pinned") or {}).get("allocated_bytes.current", 0),
    }
    if alone and raw.get("nvml") is not None:  # the driver counts every process of the GPU
        said["device_used_bytes"] = raw["nvml"]
    if timed and before is not None:
        said["seconds"] = round(raw["t"] - before["t"], 4)
    return said


def versions(raw: Json) -> dict[str, Any]:
    """Without what the machine did not tell: a driver's version begins with a digit."""
    said = {key: value for key, value in raw.items() if value is not None}
    if not str(said.get("driver", "0"))[0].isdigit():
        del said["driver"]
    return said


def record(result: Json) -> dict[str, Any]:
    """The measurement record of one raw result. Raises NoMeasurement."""
    case, real = result["case"], bool(result.get("real"))
    if not result["ok"] and "oom" not in result:
        lines = str(result.get("error", "")).strip().splitlines() or ["no reason given"]
        raise NoMeasurement(f"{case['id']}: {lines[-1]}")
    limit = case.get("cap_gib")
    said: dict[str, Any] = {
        "schema": "zplan.measurement/1",
        "id": case["id"],
        "model": case["model"],
        "world_size": case.get("world", 1),
        "rank": result.get("rank", case.get("rank", 0)),
        "ranks": "nccl" if real else "fake",
        "workload": workload(case),
        "alloc_conf": case.get("alloc_conf", ""),
        "capacity_limit_bytes": None if limit is None else int(limit * 2**30),
        "ds_config": result["ds_config"],
        "versions": versions(result["versions"]),
        "outcome": "ok" if result["ok"] else "oom",
        "optimizer_classes": result.get("optimizer", ""),
        "phases": [phase(raw, before, timed=real, alone=real)
                   for before, raw in zip([None, *result["phases"]], result["phases"])],
    }
    if not result["ok"]:
        said["oom_message"] = result["oom"]
    if real:  # neighbours on a shared GPU change times, not memory
        said["step_seconds"] = result.get("step_s", [])
        said["loop_step_seconds"] = result.get("timed_s", [])
    return said


def records(lines: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of all lines that hold a measurement, and why the others hold none."""
    good, failed = [], []
    for line in lines:
        if not line.strip():
            continue
        try:
            good.append(record(json.loads(line)))
        except NoMeasurement as reason:
            failed.append(str(reason))
    return good, failed


def main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    worst = 0
    for path in arguments:
        with open(path, encoding="utf-8") as file:
            good, failed = records(file)
        for one in good:
            print(json.dumps(one))
        for reason in failed:
            print(f"left out: {reason}", file=sys.stderr)
            worst = 1
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
