"""validate/deepspeed/probe.py: what it reads, what it builds, what it writes, and what it says is missing."""

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT, each_plan
from tiny_model import SHAPE

sys.path.insert(0, str(ROOT / "validate/deepspeed"))
import probe  # noqa: E402
from zplan_probe import model, optimizer, packages, ranks, sources  # noqa: E402
from zplan_probe.ds_config import settled  # noqa: E402
from zplan_probe.errors import MissingPackage, ProbeError  # noqa: E402
from zplan_probe.job import Job, Workload, workload_json  # noqa: E402
from zplan_probe.launch_file import environment_of_launch, workload_of_launch  # noqa: E402

PROBE = ROOT / "validate/deepspeed/probe.py"
CONFIG = {"model_type": "qwen3", **SHAPE}
DS = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
}
RECORDS = [json.loads(line) for line in (ROOT / "tests/truth/runs.jsonl").read_text().splitlines()]


def a_job(ds=None, **workload):
    return Job(
        id="x",
        model="tiny",
        model_config=CONFIG,
        ds_config={**DS, **(ds or {})},
        workload=Workload(**{"seq_len": 32, **workload}),
    )


def options(*words):
    return probe.parser().parse_args(words)


# ---- what it reads


def test_every_measured_run_can_be_run_again():
    """--like takes every input of a record, and what is written says the same again."""
    first = {record["id"]: record for record in reversed(RECORDS)}  # of the ranks of a run
    for record in first.values():
        job = probe.job_of(options("--like", f"{ROOT}/tests/truth/runs.jsonl#{record['id']}"))
        assert (job.id, job.world_size, job.rank, job.alloc_conf) == (
            record["id"],
            record["world_size"],
            record["rank"],
            record["alloc_conf"],
        )
        assert job.capacity_bytes == record["capacity_limit_bytes"]
        assert {key: value for key, value in job.ds_config.items() if key in record["ds_config"]} == record["ds_config"]
        said, was = workload_json(job), dict(record["workload"])
        assert {key: said.get(key) for key in was} == was, record["id"]


@each_plan(only=lambda plan: "keep_auto" in plan.expected)
def test_launch_arguments_say_what_was_planned(plan):
    text = plan.launch.read_text()
    said = workload_of_launch(text, str(plan.launch))
    assert said["precision"] == plan.expected["precision"]
    assert (said.get("optimizer") is None) == plan.expected["deepspeed_optimizer"]
    if "--seq_len" in text:
        assert said["seq_len"] == 2048 or f"--seq_len {said['seq_len']}" in text
    conf, _ = environment_of_launch(text)
    assert (f"ALLOC_CONF={conf}" in text) == bool(conf)


def plan_folder(folder, **best):
    inputs = {
        "model": {"name": "Qwen3-0.6B", "hidden_size": 1024},
        "workload": {"seq_len": 2048, "finetune": "full", "precision": "bf16", "recompute": "full", "kernels": []},
        "ds_config": {**DS, "gradient_accumulation_steps": 9},
        "versions": {"deepspeed": "0.19.8"},
        "alloc_conf": "",
        "machine": {"gpu": "H200", "interconnect": "nvlink"},
    }
    simulation = {"schema": "zplan.simulation/1", "inputs": inputs, "world_size": 4, "rank": 1, **best}
    (folder / "plan.json").write_text(json.dumps({"schema": "zplan.plan/1", "best": {"simulation": simulation}}))
    (folder / "simulation.json").write_text(json.dumps(simulation))
    (folder / "ds_config.json").write_text(
        json.dumps(
            {
                **DS,
                "train_batch_size": 16,
                "gradient_clipping": "auto",
                "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
            }
        )
    )
    (folder / "launch.sh").write_text("""#!/usr/bin/env bash
export PYTORCH_ALLOC_CONF=expandable_segments:True
export OMP_NUM_THREADS=6
arguments=(
  --model_name_or_path "$model"
  --data "$data"
  --seq_len 1024
  --finetune lora
  --lora_rank 8
  --attn_implementation sdpa
  --bf16 true
  --gradient_checkpointing true
  --gradient_checkpointing_kwargs '{"use_reentrant":true,"every_n_layers":2}'
  --use_liger_kernel true
  --liger_kernel_config '{"rope":false,"cross_entropy":false,"fused_linear_cross_entropy":true}'
  --max_grad_norm 0.5
)
""")
    return folder


def test_the_files_of_a_plan_count_not_what_plan_json_repeats(tmp_path):
    job = probe.job_of(options("--plan", str(plan_folder(tmp_path))))
    assert (job.world_size, job.rank, job.grad_accum, job.alloc_conf, job.cpu_threads) == (
        4,
        1,
        2,
        "expandable_segments:True",
        6,
    )
    assert (job.ds_config["gradient_clipping"], job.ds_config["zero_optimization"]["reduce_bucket_size"]) == (
        0.5,
        1024 * 1024,
    )
    w = job.workload
    assert (w.seq_len, w.finetune, w.lora_rank, w.recompute, w.recompute_impl, w.kernels) == (
        1024,
        "lora",
        8,
        "every-2",
        "reentrant",
        ("fused_linear_cross_entropy",),
    )
    assert job.model_config["num_hidden_layers"] == 28  # models/qwen3-0.6b.json


def test_a_simulation_stands_for_itself(tmp_path):
    job = probe.job_of(options("--plan", str(plan_folder(tmp_path) / "simulation.json"), "--world", "8"))
    assert (job.grad_accum, job.workload.finetune, job.world_size) == (9, "full", 8)
    assert "train_batch_size" not in job.ds_config


@pytest.mark.parametrize("ds, trainer, key, expected", [
    ({"bf16": {"enabled": "auto"}}, {}, ("bf16", "enabled"), True),
    ({"fp16": {"enabled": "auto"}}, {"fp16": False}, ("fp16", "enabled"), False),
    ({"zero_optimization": {"stage3_prefetch_bucket_size": "auto"}}, {},
     ("zero_optimization", "stage3_prefetch_bucket_size"), 3686),
    ({"zero_optimization": {"stage3_param_persistence_threshold": "auto"}}, {},
     ("zero_optimization", "stage3_param_persistence_threshold"), 640),
    ({"optimizer": {"params": {"lr": "auto"}}}, {"lr": 2e-5}, ("optimizer", "params", "lr"), 2e-5),
    ({"train_batch_size": "auto"}, {}, ("train_batch_size",), 16),
    ({"train_batch_size": 64, "gradient_accumulation_steps": None}, {}, ("gradient_accumulation_steps",), 8),
])  # fmt: skip
def test_auto_is_what_the_trainer_fills_in(ds, trainer, key, expected):
    value = settled({**DS, **ds}, "ds_config.json", 64, trainer, world_size=4)
    for part in key:
        value = value[part]
    assert value == expected


@pytest.mark.parametrize("words, message", [
    ([], "probe.py: what to run is not said"),
    (["--like", "a.json", "--plan", "b"], "probe.py: several things to run are named"),
    (["--plan", "/nowhere"], "/nowhere: No such file or directory"),
    (["--like", "/nowhere.json"], "/nowhere.json: No such file or directory"),
    (["--like", f"{ROOT}/tests/truth/runs.jsonl"], "records answer to it"),
    (["--ds-config", "a.json"], "--ds-config: no model is named"),
    (["--ds-config", "a.json", "--model", "qwen9"], "--model qwen9: no such file, and no model of that name"),
    (["--like", f"{ROOT}/tests/truth/runs.jsonl#a01", "--recompute", "some"], "--recompute: 'some' is not known"),
])  # fmt: skip
def test_input_errors_end_with_2(words, message, capsys):
    assert probe.main(words) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.startswith("probe.py: error: ") and not said.out


def test_ranks_that_were_not_started_are_an_input_error():
    with pytest.raises(ProbeError, match="1 process started"):
        ranks.place_of(sources.in_world(a_job(), 4), False, {}, "cuda")
    place = ranks.place_of(
        sources.in_world(a_job(), 4),
        False,
        {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
        "cuda",
    )
    assert (place.rank, place.local_rank, place.kind, place.local_ranks) == (3, 1, "nccl", 2)


# ---- packages


@pytest.mark.parametrize("ds, workload, package", [
    ({}, {"finetune": "qlora"}, "bitsandbytes"),
    ({}, {"optimizer": "bitsandbytes-adamw8bit"}, "bitsandbytes"),
    ({}, {"kernels": ("rope",)}, "liger_kernel"),
    ({}, {"attention": "flash"}, "flash_attn"),
    ({}, {}, "deepspeed"),
])  # fmt: skip
def test_what_is_missing_is_said_in_one_line(monkeypatch, ds, workload, package):
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(MissingPackage) as error:
        packages.require(a_job(ds, **workload))
    assert str(error.value).startswith(f"{package}: not installed, and ") and "\n" not in str(error.value)


def test_without_deepspeed_the_program_says_so_and_ends_with_2(tmp_path):
    """A Python that has torch's name and nothing else."""
    for name in ("torch", "transformers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-S", PROBE, "--like", f"{ROOT}/tests/truth/runs.jsonl#b01", "--stand-in"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "probe.py: error: deepspeed: not installed, and it is what the probe measures: "
        "pip install 'deepspeed==0.19.6'\n",
    )


# ---- the model


@pytest.mark.parametrize("workload, trained, checkpointed", [
    ({}, None, 0),
    ({"recompute": "full"}, None, 4),
    ({"recompute": "every-2", "recompute_impl": "reentrant"}, None, 2),
    ({"finetune": "freeze", "freeze_layers": 3}, "layers.3", 0),
    ({"finetune": "lora", "lora_rank": 4, "recompute": "full"}, "lora_", 4),
], ids=str)  # fmt: skip
def test_the_model_is_as_the_workload_says(workload, trained, checkpointed):
    built, _ = model.build(a_job(**workload), "cpu")
    names = [name for name, parameter in built.named_parameters() if parameter.requires_grad]
    first = [name for name in names if "layers." in name]
    assert all(trained in name for name in first) if trained else len(names) == len(list(built.parameters()))
    layers = [module for module in built.modules() if module.__class__.__name__ == "Qwen3DecoderLayer"]
    assert sum(bool(layer.gradient_checkpointing) for layer in layers) == checkpointed
    weights = {name: parameter for name, parameter in built.named_parameters() if "lora_" not in name}
    assert {str(parameter.dtype) for parameter in weights.values()} == {"torch.bfloat16"}
    for name, parameter in weights.items():
        spread = parameter.float().std().item()
        assert parameter.eq(1).all() if "norm" in name else 0.015 < spread < 0.025, name


def test_every_model_type_is_built_whole():
    """The class that transformers makes of models/*.json has the published number of parameters."""
    import torch

    for name in ("qwen3-0.6b", "qwen2.5-0.5b", "llama-3.2-1b", "mistral-7b-v0.3", "qwen3-30b-a3b"):
        config = sources.config_of_model(name, {})
        published = json.loads((ROOT / f"models/{name}.json").read_text())["published_parameters"]
        with torch.device("meta"):
            hf, cls = model.model_class(
                Job(id="x", model=name, model_config=config, ds_config=DS, workload=Workload(seq_len=8))
            )
            assert sum(parameter.numel() for parameter in cls(hf).parameters()) == published, name


def test_the_trainers_two_groups():
    built, _ = model.build(a_job(optimizer="torch-adamw-foreach", parameter_groups=2), "cpu")
    decaying, others = optimizer.groups(built, 2)
    names = {id(parameter): name for name, parameter in built.named_parameters()}
    assert all("norm" in names[id(parameter)] for parameter in others["params"])
    assert len(others["params"]) == 4 * 4 + 1 and len(decaying["params"]) == 4 * 7 + 2
