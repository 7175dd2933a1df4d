"""The real DeepSpeed accepts every ds_config.json and resolves it to what the plan means."""

import json
import re

import pytest
from conftest import each_plan
from deepspeed.runtime import config as ds


def resolve(monkeypatch, path, world_size):
    """DeepSpeedConfig as a rank of that world sees it. Nothing is started."""
    monkeypatch.setattr(ds.dist, "get_rank", lambda *_: 0)
    monkeypatch.setattr(ds.dist, "get_world_size", lambda *_: world_size)
    return ds.DeepSpeedConfig(str(path))


def value(field):
    return getattr(field, "value", field)  # devices are enums


DTYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}


@each_plan(only=lambda plan: not plan.expected["keep_auto"])
def test_deepspeed_resolves_what_was_planned(plan, monkeypatch):
    want = plan.expected
    got = resolve(monkeypatch, plan.ds_config, want["world_size"])

    assert got.train_micro_batch_size_per_gpu == want["micro_batch"]
    assert got.gradient_accumulation_steps == want["accumulation"]
    assert got.train_batch_size == want["micro_batch"] * want["accumulation"] * want["world_size"]
    assert got.gradient_clipping == want["gradient_clipping"]
    assert got.bfloat16_config.enabled == (want["precision"] == "bf16")
    assert got.float16_config.enabled == (want["precision"] == "fp16")
    assert got.grad_accum_dtype == want["grad_accum_dtype"]
    if want["grad_accum_dtype"]:
        assert str(got.communication_data_type) == DTYPES["fp32"]
    assert got.bfloat16_config.bf16_optimizer_states == want["bf16_states"]
    assert got.bfloat16_config.bf16_master_weights_and_grads == want["bf16_states"]
    if want["deepspeed"] == "0.19.8":  # the key is left out for a DeepSpeed that does not know it
        assert got.bfloat16_config.check_grad_overflow == want["bf16_check_grad_overflow"]
    assert (got.optimizer_name == "adamw") == want["deepspeed_optimizer"]
    if want["deepspeed_optimizer"]:
        assert got.optimizer_params["lr"] == want["learning_rate"]
    else:
        assert got.optimizer_name is None and got.zero_allow_untested_optimizer

    zero = got.zero_config
    for name, planned in want["zero"].items():
        assert getattr(zero, name) == planned, name
    for section in ("offload_optimizer", "offload_param"):
        planned, resolved = want[section], getattr(zero, section)
        assert (resolved is None) == (planned is None), section
        for name, number in (planned or {}).items():
            if planned["device"] == "nvme" or name in ("device", "pin_memory", "ratio"):
                assert value(getattr(resolved, name)) == number, f"{section}.{name}"


@each_plan()
def test_auto_only_when_asked_for(plan):
    assert ('"auto"' in plan.ds_config.read_text()) == plan.expected["keep_auto"]


@each_plan()
def test_no_key_without_effect_in_the_stage(plan):
    zero = json.loads(plan.ds_config.read_text())["zero_optimization"]
    stage = zero["stage"]
    if stage != 3:
        assert not [key for key in zero if key.startswith("stage3_") or key in ("sub_group_size", "offload_param")]
    if stage == 3:
        assert "allgather_bucket_size" not in zero and "round_robin_gradients" not in zero
    if stage == 0:
        assert list(zero) == ["stage"]
    assert "activation_checkpointing" not in plan.ds_config.read_text()


def test_the_check_refuses_a_wrong_file(tmp_path, monkeypatch):
    """What the tests above rest on: DeepSpeed itself refuses an unknown key and a wrong product."""
    with pytest.raises(Exception, match="reduce_bucket"):
        path = tmp_path / "a.json"
        path.write_text('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2, "reduce_bucket": 5}}')
        resolve(monkeypatch, path, 2)
    with pytest.raises(AssertionError, match=re.compile("batch", re.I)):
        path = tmp_path / "b.json"
        path.write_text('{"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}')
        resolve(monkeypatch, path, 2)
