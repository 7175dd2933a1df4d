#!/usr/bin/env python3
"""Write random runs: models cut to a few layers, stages, precisions, checkpointing, offload, adapters, kernels, buckets
and allocator settings that nobody picked, as records without phases, and the jobs that measure them.

    python3 validate/deepspeed/random_runs.py --seed 1 --count 60 --out FOLDER
    python3 validate/deepspeed/measure_many.py FOLDER/JOBS.txt --out FOLDER/measured --side-by-side 4
    zplan compare FOLDER/measured/records.jsonl

The same seed gives the same runs. Each is one rank played alone (probe.py --stand-in). A run that DeepSpeed itself
refuses is no measurement; measure_many.py names it.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import random
import sys
from typing import Any

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
WIDEST = 8192  # hidden_size: larger models are wider copies of the same layers
LIGER = ("fused_linear_cross_entropy", "rms_norm", "rope", "swiglu")
CONFS = ("expandable_segments:True", "max_split_size_mb:128", "garbage_collection_threshold:0.8", "roundup_power2_divisions:4")
Json = dict[str, Any]


def configs() -> list[Json]:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(MODELS.glob("*.json"))]
    return [config for config in found if config["hidden_size"] < WIDEST]


def zero(r: random.Random, stage: int, hidden: int) -> Json:
    said: Json = {"stage": stage, "overlap_comm": r.random() < 0.6, "contiguous_gradients": stage == 3 or r.random() < 0.9}
    if stage < 3:
        said["reduce_bucket_size"] = r.choice([10**7, 5 * 10**7, 2 * 10**8, 5 * 10**8])
        said["allgather_bucket_size"] = r.choice([5 * 10**7, 2 * 10**8, 5 * 10**8])
        return said
    said["reduce_bucket_size"] = r.choice([hidden * hidden, 10**7, 10**8, 5 * 10**8])
    said["stage3_prefetch_bucket_size"] = r.choice([int(0.9 * hidden * hidden), 0, 10**7, 5 * 10**7, 2 * 10**8])
    said["stage3_param_persistence_threshold"] = r.choice([10 * hidden, 10 * hidden, 0, 100_000, 10**7])
    said["sub_group_size"] = r.choice([10**9, 10**9, 5 * 10**7, 3 * 10**8])
    if r.random() < 0.4:
        said["stage3_max_live_parameters"] = r.choice([0, 10**8, 10**9, 3 * 10**9])
        said["stage3_max_reuse_distance"] = r.choice([0, 10**7, 10**9])
    if r.random() < 0.15:
        said["stage3_allgather_sequential"] = True
    return said


def offload(r: random.Random, said: Json) -> None:
    on_cpu = {"device": "cpu", "pin_memory": r.random() < 0.7}
    said["offload_optimizer"] = on_cpu
    if said["stage"] == 3 and r.random() < 0.5:
        said["offload_param"] = on_cpu


def workload(r: random.Random, config: Json, stage: int) -> Json:
    experts = config["model_type"] == "qwen3_moe"
    finetune = "full" if experts else r.choices(["full", "lora", "qlora"], [75, 20, 5])[0]
    if finetune == "qlora" and stage == 3:
        finetune = "lora"
    precision = r.choices(["bf16", "fp16", "fp32"], [75, 10, 15])[0] if finetune == "full" else "bf16"
    seq_len = r.choice([256, 511, 1000, 1024, 2048, 2048, 3000, 4096])
    said: Json = {
        "seq_len": seq_len,
        "micro_batch": min(r.choice([1, 1, 2, 3, 4, 8]), max(1, 8192 // seq_len)),
        "grad_accum": r.choice([1, 1, 2, 4]),
        "recompute": r.choices(["none", "full", "every-2"], [40, 50, 10])[0],
        "recompute_impl": r.choices(["non-reentrant", "reentrant"], [75, 25])[0],
        "attention": "eager" if r.random() < 0.15 and seq_len <= 2048 else "sdpa",
        "finetune": finetune,
        "lora_rank": r.choice([8, 16, 64]) if finetune != "full" else None,
        "precision": precision,
        "optimizer": r.choices(["deepspeed-adamw", "torch-adamw-fused", "torch-adamw-foreach", "bitsandbytes-adamw8bit"],
                               [70, 12, 8, 10])[0],
        "load": r.choice(["cpu", "cpu", "gpu"]),
    }
    if said["recompute"] == "none":
        said["recompute_impl"] = "non-reentrant"
    kernels: list[str] = []
    if r.random() < 0.2 and config["model_type"] in ("qwen3", "qwen2", "llama") and precision != "fp32":
        kernels = list(r.choice([LIGER, LIGER[:1], LIGER[1:]]))
    said["kernels"], said["fused_loss"] = kernels, LIGER[0] in kernels
    if finetune == "lora" and r.random() < 0.2:
        said["lora_dropout"] = 0.1
    if r.random() < 0.08 and said["attention"] == "sdpa" and not kernels:
        said["attention_mask"] = True
    return said


def run(r: random.Random, config: Json, name: str) -> Json:
    stage = r.choices([0, 1, 2, 3], [8, 15, 30, 47])[0]
    world = r.choice([2, 3, 4, 4, 8, 8, 16, 64]) if stage else r.choice([1, 2, 4])
    work = workload(r, config, stage)
    layers = r.choice([1, 2]) if config["model_type"] == "qwen3_moe" else r.choice([2, 3, 4, 6])
    overrides: Json = {"num_hidden_layers": min(layers, config["num_hidden_layers"])}
    if r.random() < 0.15:
        overrides["tie_word_embeddings"] = r.random() < 0.5
    work["model_overrides"] = overrides
    ds: Json = {
        "train_micro_batch_size_per_gpu": work["micro_batch"],
        "gradient_accumulation_steps": work["grad_accum"],
        "gradient_clipping": r.choice([1.0, 1.0, 0.0]),
        "zero_optimization": zero(r, stage, config["hidden_size"]),
        "zero_allow_untested_optimizer": True,
    }
    if work["precision"] != "fp32":
        ds[work["precision"]] = {"enabled": True}
    whole = work["finetune"] == "full" and work["precision"] != "fp32"
    if stage and whole and r.random() < 0.2:
        work["optimizer"] = "deepspeed-adamw"
        offload(r, ds["zero_optimization"])
    elif whole and work["precision"] == "bf16" and stage == 1 and r.random() < 0.3:
        ds["data_types"] = {"grad_accum_dtype": r.choice(["fp32", "bf16"])}
    if work["optimizer"] == "deepspeed-adamw":
        ds["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-5, "weight_decay": 0.01}}
    return {
        "schema": "zplan.measurement/1",
        "id": name,
        "model": config["name"],
        "world_size": world,
        "rank": r.choice([0, world - 1, r.randrange(world)]) if stage < 3 else 0,
        "ranks": "fake",
        "workload": work,
        "alloc_conf": r.choice(CONFS) if r.random() < 0.15 else "",
        "capacity_limit_bytes": None,
        "ds_config": ds,
        "versions": {},
        "outcome": "ok",
        "phases": [],
    }


def gib(record: Json, config: Json) -> float:
    """What a run may need, roughly and rather too much: only to choose what fits beside others."""
    work, stage = record["workload"], record["ds_config"]["zero_optimization"]["stage"]
    h, f, v = config["hidden_size"], config.get("intermediate_size", 0), config["vocab_size"]
    layers, tokens = work["model_overrides"]["num_hidden_layers"], work["micro_batch"] * work["seq_len"]
    experts = 3 * config["num_experts"] * config["moe_intermediate_size"] * h if "num_experts" in config else 0
    parameters = layers * (4 * h * h + (experts or 3 * h * f)) + 2 * v * h
    states = 20 * parameters if stage < 3 else 20 * parameters / record["world_size"] + 4 * parameters / max(layers, 1)
    width = 2 if work["precision"] == "fp32" else 1
    scores = tokens * work["seq_len"] * config["num_attention_heads"] * (24 if work["attention"] == "eager" or width == 2 else 0)
    return (states + width * tokens * (layers * (40 * h + 8 * f) + 14 * v) + scores * layers) / 2**30


def main() -> int:
    parser = argparse.ArgumentParser(prog="random_runs.py", description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--most-gib", type=float, default=30, help="leave out runs that may need more (default 30)")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    options = parser.parse_args()
    r, known = random.Random(options.seed), configs()
    found: list[Json] = []
    while len(found) < options.count:
        config = r.choice(known)
        record = run(r, config, f"random-{options.seed}-{len(found) + 1:03d}")
        if gib(record, config) <= options.most_gib:
            found.append(record)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "runs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in found), encoding="utf-8")
    jobs = [f"--like '{out / 'runs.jsonl'}#{record['id']}' --stand-in --rank {record['rank']} --id {record['id']}" for record in found]
    (out / "JOBS.txt").write_text("\n".join(jobs) + "\n", encoding="utf-8")
    print(f"{len(found)} runs; measure them with: python3 validate/deepspeed/measure_many.py {out}/JOBS.txt --out {out}/measured")
    return 0


if __name__ == "__main__":
    sys.exit(main())
