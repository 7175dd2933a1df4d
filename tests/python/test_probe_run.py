"""validate/deepspeed/probe.py in the real DeepSpeed, on the CPU: one of four ranks, to a record that zplan reads."""

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

PROBE = ROOT / "validate/deepspeed/probe.py"
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
}
PARAMETERS = 2 * 512 * 64 + 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64 + 2 * 16)


def like(stage, **workload):
    """A measured run of Qwen3-0.6B, made so small that a CPU can repeat it."""
    lines = (ROOT / "tests/truth/runs.jsonl").read_text().splitlines()
    record = next(r for r in map(json.loads, lines) if r["id"] == "a01")
    said = (
        record["workload"]
        | {
            "seq_len": 32,
            "grad_accum": 2,
            "optimizer": "torch-adamw-foreach",
            "parameter_groups": 2,
            "model_overrides": TINY | {"tie_word_embeddings": False},
        }
        | workload
    )
    ds = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    return record | {"world_size": 4, "rank": 1, "workload": said, "ds_config": ds}


@pytest.mark.parametrize("stage, workload", [
    (2, {"recompute": "full"}),
    (3, {"finetune": "lora", "lora_rank": 4, "optimizer": "torch-adamw-fused"}),
], ids=["stage 2, recomputation", "stage 3, LoRA"])  # fmt: skip
def test_one_of_four_ranks_runs_in_deepspeed(tmp_path, stage, workload):
    (tmp_path / "like.json").write_text(json.dumps(like(stage, **workload)))
    done = subprocess.run(
        [sys.executable, PROBE, "--like", "like.json", "--device", "cpu", "--stand-in", "--steps", "2", "--out", "m.json"],
        cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "m.json").read_text())
    assert (record["outcome"], record["ranks"], record["rank"], record["world_size"]) == ("ok", "fake", 1, 4)
    adapters = 4 * 2 * (2 * (64 + 64) + 2 * (64 + 32) + 2 * (64 + 128) + (128 + 64)) if "finetune" in workload else 0
    assert record["parameters"] == PARAMETERS + adapters
    assert [phase["phase"] for phase in record["phases"]] == ["start", "load", "init"] + 4 * [
        "forward",
        "backward",
        "step",
    ]
    assert [(phase["step"], phase["micro_step"]) for phase in record["phases"][3::3]] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert record["optimizer_classes"].startswith("DeepSpeedZeroOptimizer") and record["optimizer_classes"].endswith(
        "/AdamW"
    )
    assert "losses" not in record and "step_seconds" not in record  # a stand-in's say nothing
    if (
        stage == 2
    ):  # bf16 weights whole; a rank's quarter of the fp32 copy and of two states, with 512 bytes of alignment
        assert 0 <= record["components"]["parameters"] - 2 * PARAMETERS < 4096
        assert 0 <= record["components"]["optimizer"] - 3 * PARAMETERS < 4096
    if zplan := os.environ.get("ZPLAN_PROGRAM"):
        compared = subprocess.run([zplan, "compare", "m.json"], cwd=tmp_path, capture_output=True, text=True)
        assert compared.returncode == 0 and "error" not in compared.stdout, compared.stdout + compared.stderr
        assert f"Qwen3-0.6B z{stage} N4" in compared.stdout


def test_two_real_ranks_measure_times_and_losses(tmp_path):
    """gloo in NCCL's place: both ranks write, and both see the same mean over the tokens of all."""
    (tmp_path / "like.json").write_text(json.dumps(like(2)))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", PROBE, "--like", "like.json",
         "--world", "2", "--device", "cpu", "--steps", "3", "--timed-steps", "1", "--out", "m.json"],
        cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    records = [json.loads((tmp_path / name).read_text()) for name in ("m.json", "m.rank1.json")]
    assert [(record["rank"], record["ranks"], record["outcome"]) for record in records] == [
        (0, "gloo", "ok"),
        (1, "gloo", "ok"),
    ]
    for record in records:
        assert len(record["losses"]) == 3 and len(record["step_seconds"]) == 3 and len(record["loop_step_seconds"]) == 1
        assert (
            6.0 < record["losses"][0] < 6.5
        )  # ln(512) = 6.24: a mean over tokens, not divided by micro-steps or ranks
        assert all(phase["seconds"] >= 0 for phase in record["phases"]) and record["machine"]["gpus"] == 2
