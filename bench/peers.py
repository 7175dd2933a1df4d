#!/usr/bin/env python3
"""What other estimators say of measured DeepSpeed runs, how far off they are, how long an answer takes, beside zplan.

    bench/peers.py [RECORDS.jsonl...] [--zplan build/release/zplan]      default: tests/truth/runs.jsonl and grid.jsonl

Peers are run as their users run them, where this Python can import them; the others are named and left out:
    DeepSpeed's estimators   pip install deepspeed        model states; stages 2 and 3 only
    accelerate               pip install accelerate       `accelerate estimate-memory`: knows no sharding
    llm-analysis             pip install llm-analysis     states and activations
Runs taken: full fine-tuning of a dense decoder in bf16 that completed, without Liger's kernels and capacity limit, each
once. Errors are against the measured allocated peak, from initialize on. Every estimator is asked in this process, zplan as
a program of its own (`zplan simulate`), its start included.
"""
from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "validate/deepspeed"))
from zplan_probe import sources  # noqa: E402


class Unknown(Exception):
    """The peer has no answer for this kind of run."""


def module_of(job):
    """The model without memory for its weights: what estimators count parameters on."""
    import torch
    import transformers

    keys = dict(job.model_config)
    config = transformers.AutoConfig.for_model(keys.pop("model_type"), **keys)
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config)


def deepspeed_estimator(job):
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as zero3
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as zero2

    model = module_of(job)
    total = sum(p.numel() for p in model.parameters())
    on_cpu = job.offloads("optimizer")
    if job.stage == 3:
        largest = max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules())
        return zero3(total, largest, job.world_size, 1, on_cpu, job.offloads("param"), True, 1.5)[1]
    if job.stage == 2:
        return zero2(total, job.world_size, 1, on_cpu, 1.5)[1]
    raise Unknown


def accelerate_estimate(job):
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    total, _ = calculate_maximum_sizes(module_of(job).float())
    return max(estimate_training_usage(total, "bfloat16").values())


def llm_analysis_estimate(job):
    from llm_analysis.analysis import train

    model = job.model_config
    known = dict(name="model", num_layers=model["num_hidden_layers"], n_head=model["num_attention_heads"],
                 hidden_dim=model["hidden_size"], vocab_size=model["vocab_size"], max_seq_len=1 << 20,
                 num_key_value_heads=model["num_key_value_heads"], ffn_embed_dim=model["intermediate_size"],
                 model_type="llama")  # fmt: skip
    if job.offloads("optimizer"):
        raise Unknown
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(known, file)
        file.flush()
        try:
            said = train(model_name=file.name, gpu_name="a100-sxm-80gb", total_num_gpus=job.world_size,
                         num_gpus_per_node=job.world_size, dp_size=job.world_size, ds_zero=job.stage,
                         batch_size_per_gpu=job.micro_batch, gradient_accumulation_steps=job.grad_accum,
                         seq_len=job.workload.seq_len, mlp_gated_linear_units=True, total_num_tokens=10**6,
                         activation_recomputation=0 if job.workload.recompute == "none" else 2,
                         log_level="CRITICAL")  # fmt: skip
        except ValueError:  # a width of the MLP that the hidden size does not divide
            raise Unknown
    return said["(weight+op_state+grad+act)_memory_per_gpu"]


PEERS = {
    "DeepSpeed's estimators": ("deepspeed", deepspeed_estimator),
    "accelerate": ("accelerate", accelerate_estimate),
    "llm-analysis": ("llm_analysis", llm_analysis_estimate),
}


def comparable(record):
    workload, zero = record["workload"], record["ds_config"].get("zero_optimization", {})
    return (record["outcome"] == "ok" and record["rank"] == 0 and not record.get("capacity_limit_bytes")
            and workload["finetune"] == "full" and workload["precision"] == "bf16"
            and workload["recompute"] in ("none", "full")
            and not workload.get("kernels") and not workload.get("fused_loss") and not workload.get("model_overrides")
            and workload["optimizer"] == "deepspeed-adamw" and "nvme" not in json.dumps(zero)
            and "moe" not in record["model"])  # fmt: skip


def taken(paths):
    """(where it stands, record), each configuration once."""
    seen, found = set(), []
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            record = json.loads(line)
            key = json.dumps([record[k] for k in ("model", "world_size", "workload", "ds_config", "alloc_conf")])
            if comparable(record) and key not in seen:
                seen.add(key)
                found.append((f"{path}#{record['id']}", record))
    return found


def peak_of(record):
    return max(phase["allocated_peak_bytes"] for phase in record["phases"] if phase["phase"] not in ("start", "load"))


def ask_zplan(program, where):
    done = subprocess.run([program, "simulate", "--like", where, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unknown
    return json.loads(done.stdout)["peak"]["allocated_bytes"]


def timed(answer, *question):
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        said = answer(*question)
    return said, time.perf_counter() - began


def importable(module):
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            __import__(module)
        return True
    except ImportError:
        return False


def row(name, errors, seconds, of, unit_seconds):
    if not errors:
        return f"{name:<24}{0:>4} of {of}"
    worst = max(errors, key=abs)
    median = statistics.median(seconds)
    return (f"{name:<24}{len(errors):>4} of {of} {100 * statistics.mean(map(abs, errors)):>10.2f} % "
            f"{100 * worst:>+10.2f} % {1e3 * median:>10.1f} ms {median / unit_seconds:>8.2f}")  # fmt: skip


def main():
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("records", nargs="*", default=[ROOT / "tests/truth/runs.jsonl", ROOT / "tests/truth/grid.jsonl"])
    said.add_argument("--zplan", default=str(ROOT / "build/release/zplan"), help="the program")
    options = said.parse_args()
    logging.disable(logging.CRITICAL)
    runs = taken(options.records)
    if not runs:
        said.error("no record is comparable")
    peers = {name: answer for name, (module, answer) in PEERS.items() if importable(module)}
    for name, (module, _) in PEERS.items():
        if name not in peers:
            print(f"{name}: not installed, left out (pip install {module.replace('_', '-')})", file=sys.stderr)
    errors = {name: [] for name in ["zplan", *peers]}
    seconds = {name: [] for name in errors}
    for where, record in runs:
        job = sources.from_record(where)
        for name in errors:
            try:
                question = (options.zplan, where) if name == "zplan" else (job,)
                answer, took = timed(ask_zplan if name == "zplan" else peers[name], *question)
            except Unknown:
                continue
            errors[name].append(answer / peak_of(record) - 1)
            seconds[name].append(took)
    unit = statistics.median(seconds["zplan"])
    print(f"{'':<24}{'answers':>10} {'mean error':>12} {'worst':>12} {'an answer':>13} {'x zplan':>8}")
    for name in errors:
        print(row(name, errors[name], seconds[name], len(runs), unit))


if __name__ == "__main__":
    main()
