#!/usr/bin/env python3
"""Measure the GPU's kernels in one micro-step of a plain transformers model: seconds by operator and shape.

    python3 validate/deepspeed/measure_kernels.py --out kernels.json

What the time model's rates and its table of element-wise kernels rest on. Needs PyTorch with CUDA and transformers, and Liger
for the case with its fused loss; a minute on one GPU that nothing else uses. Each case is a model of models/ with random
weights; after three micro-steps the forward and the backward of one are recorded by torch's profiler. Kernels count for the
operator that launched them. `wall_ms` are five micro-steps outside the profiler, from CUDA events. JSON: zplan.kernels/1.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"
# Name of the model, sequences of 2,048 tokens, Liger's fused loss.
CASES = [("qwen3-1.7b", 4, False), ("qwen3-1.7b", 8, False), ("qwen3-1.7b", 8, True), ("qwen3-1.7b", 2, False),
         ("qwen3-1.7b", 1, False), ("qwen3-0.6b", 4, False)]
KEYS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
        "vocab_size", "tie_word_embeddings", "max_position_embeddings")


def build(name: str, fused: bool) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    said = json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))
    config = Qwen3Config(**{key: said[key] for key in KEYS}, use_cache=False)
    config._attn_implementation = "sdpa"
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Qwen3ForCausalLM(config).train()
        torch.set_default_dtype(torch.float32)
    if fused:
        from liger_kernel.transformers import apply_liger_kernel_to_qwen3

        apply_liger_kernel_to_qwen3(rope=False, swiglu=False, rms_norm=False, cross_entropy=False,
                                    fused_linear_cross_entropy=True, model=model)
    return model


def measure(name: str, sequences: int, fused: bool, tokens: int = 2048) -> dict[str, Any]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    model = build(name, fused)
    ids = torch.randint(0, model.config.vocab_size, (sequences, tokens), device="cuda")
    count = torch.tensor(sequences * (tokens - 1), device="cuda")

    def forward() -> Any:
        return model(input_ids=ids, labels=ids, num_items_in_batch=count, use_cache=False).loss

    for _ in range(3):
        forward().backward()
        model.zero_grad(set_to_none=True)
    result: dict[str, Any] = dict(model=name, micro_batch=sequences, seq_len=tokens, fused_loss=fused, wall_ms=[])
    for _ in range(5):
        begin, middle, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        torch.cuda.synchronize()
        begin.record()
        loss = forward()
        middle.record()
        loss.backward()
        end.record()
        torch.cuda.synchronize()
        result["wall_ms"].append([round(begin.elapsed_time(middle), 2), round(middle.elapsed_time(end), 2)])
        model.zero_grad(set_to_none=True)
    for phase in ("forward", "backward"):
        if phase == "backward":
            loss = forward()
            torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as profiled:
            if phase == "forward":
                loss = forward()
            else:
                loss.backward()
            torch.cuda.synchronize()
        rows = [dict(operator=e.key, shapes=str(e.input_shapes)[:160], count=e.count, us=round(e.self_device_time_total, 1))
                for e in profiled.key_averages(group_by_input_shape=True)
                if e.self_device_time_total > 0 and e.device_type == torch.autograd.DeviceType.CPU]
        result[phase] = sorted(rows, key=lambda row: -row["us"])
    del model, loss
    torch.cuda.empty_cache()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--out", default="kernels.json")
    options = parser.parse_args()
    import torch
    import transformers

    if not torch.cuda.is_available():
        parser.error("no CUDA device is visible")
    whole: dict[str, Any] = dict(schema="zplan.kernels/1", gpu=torch.cuda.get_device_name(), torch=torch.__version__,
                                 transformers=transformers.__version__, cases=[])
    for case in CASES:
        whole["cases"].append(measure(*case))
        pathlib.Path(options.out).write_text(json.dumps(whole) + "\n", encoding="utf-8")
        print(case, whole["cases"][-1]["wall_ms"][-1], file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
