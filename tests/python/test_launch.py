"""launch.sh of every plan: sound shell, clear refusals, and arguments that the real Trainer takes with ds_config.json."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import ALL_PLANS, each_plan

LAUNCHERS = ["deepspeed", "torchrun", "accelerate", "srun"]
# Records its own call. python3 of the tests stands first on the PATH, so that launch.sh sees its packages.
RECORD = """#!{python}
import json, os, sys
json.dump({{"program": os.path.basename(sys.argv[0]), "arguments": sys.argv[1:], "environment": dict(os.environ)}},
          open({out!r}, "w"))
"""


class Machine:
    """A folder of programs that launch.sh finds: launchers that only record how they are called, and GPUs."""

    def __init__(self, folder, gpus):
        self.bin, self.record = folder / "bin", folder / "call.json"
        self.bin.mkdir()
        for name in LAUNCHERS:
            self.program(name, RECORD.format(python=sys.executable, out=str(self.record)))
        self.program("nvidia-smi", "#!/bin/sh\ni=0; while [ $i -lt %d ]; do echo \"GPU $i: x\"; i=$((i+1)); done\n" % gpus)
        self.program("scontrol", "#!/bin/sh\nprintf 'alpha\\nbeta\\n'\n")
        for name in ("pdsh", "nvcc"):
            self.program(name, "#!/bin/sh\n")
        self.program("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')

    def program(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, launch, *arguments, **environment):
        self.record.unlink(missing_ok=True)
        path = f"{self.bin}:/usr/bin:/bin"
        done = subprocess.run(
            [launch, *arguments], capture_output=True, text=True,
            env={"PATH": path, "HOME": os.environ.get("HOME", "/"), **environment},
        )
        call = json.loads(self.record.read_text()) if self.record.exists() else None
        return done, call


def options_of(call):
    """The script's arguments, as a list, in the call of any launcher."""
    arguments = call["arguments"]
    script = next(i for i, argument in enumerate(arguments) if argument.endswith(".py"))
    return arguments[:script], arguments[script], arguments[script + 1 :]


@pytest.fixture
def launched(tmp_path, tiny_model, rows, request):
    """Copies a plan's folder and starts its launch.sh as a user would, on a machine that has the GPUs."""

    def start(plan, *arguments, gpus=None, **environment):
        folder = tmp_path / "a plan's folder"
        shutil.copytree(plan.folder, folder)
        if (folder / "hostfile").exists():
            (folder / "hostfile").write_text("localhost slots=8\n127.0.0.1 slots=8\n")
        if plan.expected["own_script"]:
            script = tmp_path / "finetune.py"
            script.write_text("")
            text = (folder / "launch.sh").read_text()
            quoted = "'" + plan.expected["own_script"].replace("'", "'\\''") + "'"
            assert quoted in text
            (folder / "launch.sh").write_text(text.replace(quoted, f"'{script}'"))
        node = {"NODE_RANK": "1", "MASTER_ADDR": "alpha", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "alpha,beta",
                "SLURM_SUBMIT_DIR": str(folder)}
        machine = Machine(tmp_path, gpus if gpus is not None else plan.expected["gpus_per_node"])
        return machine.run(folder / "launch.sh", *arguments,
                           **{"MODEL": str(tiny_model), "DATA": str(rows), **node, **environment})

    return start


@each_plan()
def test_sound_shell(plan):
    subprocess.run(["bash", "-n", plan.launch], check=True)
    assert os.access(plan.launch, os.X_OK)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", plan.launch], check=True)


def known_packages(plan):
    """launch.sh stops where a package of the plan is missing; these are not among the tests' own."""
    text = plan.launch.read_text()
    return not any(name in text for name in ("flash-attn", "bitsandbytes", "liger-kernel"))


@each_plan(only=lambda plan: known_packages(plan) and not plan.expected["own_script"])
def test_the_trainer_takes_the_arguments(plan, launched, train, monkeypatch):
    from transformers import HfArgumentParser, Qwen3Config, TrainingArguments

    done, call = launched(plan, "--max_steps", "20")
    assert done.returncode == 0, done.stderr
    if plan.expected["transformers_major"] < 5:
        pytest.skip("its arguments are those of an older Trainer")
    want = plan.expected
    monkeypatch.setattr(TrainingArguments, "world_size", property(lambda _: want["world_size"]))
    _, script_path, arguments = options_of(call)
    parser = HfArgumentParser((train.ScriptArguments, TrainingArguments))
    script, training = parser.parse_args_into_dataclasses(arguments + ["--use_cpu", "true"])  # there is no GPU here

    assert pathlib.Path(script_path).read_bytes() == pathlib.Path(train.__file__).read_bytes()
    assert script.seq_len == 2048
    assert training.per_device_train_batch_size == want["micro_batch"]
    assert training.gradient_accumulation_steps == want["accumulation"]
    assert training.max_grad_norm == want["gradient_clipping"]
    assert training.learning_rate == want["learning_rate"]
    assert training.bf16 == (want["precision"] == "bf16")
    assert training.gradient_checkpointing == (want["recompute_every"] > 0)
    if training.gradient_checkpointing:
        assert training.gradient_checkpointing_kwargs["use_reentrant"] == want["reentrant"]
        assert training.gradient_checkpointing_kwargs.get("every_n_layers", 1) == want["recompute_every"]
    assert training.max_steps == 20
    # The Trainer compares its arguments with ds_config.json twice: when they are made, and with the model.
    ds = training.hf_deepspeed_config
    ds.trainer_config_finalize(training, type("Model", (), {"config": Qwen3Config(hidden_size=4096)}), 100)
    assert ds.mismatches == []
    if want["keep_auto"]:
        assert "auto" not in json.dumps(ds.config)
        assert ds.config["zero_optimization"]["stage3_prefetch_bucket_size"] == want["zero"]["prefetch_bucket_size"]



def plan_named(name):
    return next(plan for plan in ALL_PLANS if plan.name == name)


def test_older_transformers_get_their_own_argument_names(launched):
    _, call = launched(plan_named("zero3-older-versions"))
    _, _, arguments = options_of(call)
    assert "--warmup_ratio" in arguments and "--warmup_steps" not in arguments


def test_deepspeeds_own_parser_reads_the_call(launched):
    from deepspeed.launcher import runner

    _, call = launched(plan_named("zero3"))
    args = runner.parse_args(call["arguments"])
    assert (args.num_gpus, args.include, args.no_local_rank, args.master_port) == (4, "", True, 29500)


def test_visible_devices_are_kept(launched):
    from deepspeed.launcher import runner

    _, call = launched(plan_named("zero3"), gpus=8, CUDA_VISIBLE_DEVICES="4,5,6,7", MASTER_PORT="29600")
    args = runner.parse_args(call["arguments"])
    resources = runner.parse_inclusion_exclusion({"localhost": 8}, args.include, args.exclude)
    assert (resources, args.master_port) == ({"localhost": [4, 5, 6, 7]}, 29600)
    assert "CUDA_VISIBLE_DEVICES" not in call["environment"]


def test_two_nodes_with_deepspeed(launched):
    from deepspeed.launcher import runner

    plan = plan_named("zero3-two-nodes")
    assert dict(runner.fetch_hostfile(str(plan.folder / "hostfile"))) == {"node-1": 8, "node-2": 8}
    _, call = launched(plan)
    args = runner.parse_args(call["arguments"])
    assert dict(runner.fetch_hostfile(args.hostfile)) == {"localhost": 8, "127.0.0.1": 8}
    # What the launcher would hand to the other nodes: only lines with "=", read from this file.
    handed_on = dict(line.split("=", 1) for line in pathlib.Path(call["environment"]["DS_ENV_FILE"]).read_text().splitlines())
    assert handed_on["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True,max_split_size_mb:512"
    assert int(handed_on["OMP_NUM_THREADS"]) >= 1


@pytest.mark.parametrize("name, nodes, per_node", [("zero2-torchrun", 1, 4), ("zero2-two-nodes-torchrun", 2, 4)])
def test_torchruns_own_parser_reads_the_call(launched, name, nodes, per_node):
    from torch.distributed.run import get_args_parser

    _, call = launched(plan_named(name))
    args = get_args_parser().parse_args(call["arguments"])
    assert (call["program"], args.nproc_per_node, args.standalone) == ("torchrun", str(per_node), nodes == 1)
    if nodes > 1:
        assert (args.nnodes, args.node_rank, args.master_addr, args.master_port) == ("2", 1, "alpha", 29500)


def test_slurm_starts_torchrun_on_each_node(launched):
    from torch.distributed.run import get_args_parser

    plan = plan_named("zero3-two-nodes-slurm")
    assert {"#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=1", "#SBATCH --gpus-per-node=4"} <= set(
        plan.launch.read_text().splitlines()
    )
    _, call = launched(plan)
    start = call["arguments"].index("torchrun")
    args = get_args_parser().parse_args(call["arguments"][start + 1 :])
    assert (args.nnodes, args.nproc_per_node) == ("2", "4")
    assert (args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id) == ("c10d", "alpha:29500", "7")


def test_accelerates_own_parser_reads_the_call(launched):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    _, call = launched(plan_named("zero3-two-nodes-accelerate"))
    assert call["arguments"][0] == "launch"
    args = launch_command_parser().parse_args(call["arguments"][1:])
    assert (args.machine_rank, args.main_process_ip, args.main_process_port) == (1, "alpha", 29500)
    config = load_config_from_file(args.config_file)
    assert (config.distributed_type.value, config.num_machines, config.num_processes) == ("DEEPSPEED", 2, 8)
    # accelerate refuses these beside a deepspeed_config_file.
    assert not {"zero_stage", "gradient_accumulation_steps", "gradient_clipping", "offload_optimizer_device",
                "offload_param_device", "zero3_save_16bit_model"} & set(config.deepspeed_config)
    assert config.mixed_precision is None


@pytest.mark.parametrize("name, old, new", [
    ("zero2-torchrun", "expandable_segments:True", "expandable_segments:True"),       # torch 2.11: both names
    ("zero3-older-versions", "expandable_segments:True", None),                       # torch 2.8: the old one
    ("zero3", None, None),                                                            # planned for the defaults
])  # fmt: skip
def test_the_allocators_environment_is_the_planned_one(launched, name, old, new):
    _, call = launched(plan_named(name), PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64", PYTORCH_ALLOC_CONF="x:1")
    found = call["environment"]
    assert found.get("PYTORCH_CUDA_ALLOC_CONF") == old
    if name != "zero3-older-versions":
        assert found.get("PYTORCH_ALLOC_CONF") == new


def test_cpu_adam_gets_its_threads(launched):
    _, call = launched(plan_named("zero3-offload"), OMP_NUM_THREADS="1")
    assert call["environment"]["OMP_NUM_THREADS"] == "12"


@pytest.mark.parametrize("name, gpus, environment, message", [
    ("zero3", 4, {"DATA": "/none.jsonl"}, "/none.jsonl: there are no rows to train on"),
    ("zero3", 4, {"MODEL": "/none"}, "/none: no model folder, it has no config.json"),
    ("zero3", 2, {}, "this node has 2 GPUs, the plan is for 4"),
    ("zero3", 0, {}, "this node has 0 GPUs, the plan is for 4"),
    ("zero3", 4, {"CUDA_VISIBLE_DEVICES": "0,1"}, "CUDA_VISIBLE_DEVICES names 2 GPUs, the plan is for 4"),
    ("zero3-liger-flash", 8, {}, "the Python package flash-attn is not installed"),
    ("zero2-two-nodes-torchrun", 4, {"NODE_RANK": ""}, "NODE_RANK is not set"),
    ("zero3-two-nodes-slurm", 4, {"SLURM_JOB_ID": ""}, "this is no Slurm job"),
])  # fmt: skip
def test_refuses_before_it_starts(launched, name, gpus, environment, message):
    done, call = launched(plan_named(name), gpus=gpus, **environment)
    assert (done.returncode, call) == (2, None)
    lines = done.stderr.strip().splitlines()[-2:]
    assert lines[0] == f"launch.sh: error: {message}" and lines[1].startswith("  fix: ")


def test_own_script_gets_the_trainers_arguments_only(launched):
    _, call = launched(plan_named("zero3-own-script"))
    _, script, arguments = options_of(call)
    assert script.endswith("finetune.py")
    assert {"--deepspeed", "--per_device_train_batch_size", "--bf16"} <= set(arguments)
    assert not {"--seq_len", "--data", "--finetune"} & set(arguments)
