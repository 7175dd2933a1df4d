"""validate/deepspeed/measure_nccl.py without a GPU: what it reads in NCCL's log, and what it says where nothing can be
measured."""

import importlib.util
import subprocess
import sys

from conftest import ROOT

PROGRAM = ROOT / "validate/deepspeed/measure_nccl.py"
LOG = """\
host:1:2 [0] NCCL INFO init.cc:1994 Cuda Host Alloc Size 4 pointer 0x7ef97fa00000
host:1:2 [0] NCCL INFO channel.cc:42 Cuda Alloc Size 1216 pointer 0x7ef986000000
host:1:2 [0] NCCL INFO channel.cc:45 Cuda Alloc Size 40 pointer 0x7ef986200000
host:1:2 [0] NCCL INFO channel.cc:42 Cuda Alloc Size 1216 pointer 0x7ef986400000
host:1:2 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
"""


def program():
    spec = importlib.util.spec_from_file_location("measure_nccl", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_channels_and_device_memory_are_read_from_the_log(tmp_path):
    (tmp_path / "nccl.log").write_text(LOG)
    assert program().said_by_nccl(tmp_path / "nccl.log") == dict(
        channels=["2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer"],
        allocations=[["channel.cc:42", 1216, 2], ["channel.cc:45", 40, 1]],
    )
    assert program().said_by_nccl(tmp_path / "none") == dict(channels=[], allocations=[])


def test_settings_are_named_once_and_change_nccl_alone():
    settings = program().SETTINGS
    assert len({name for name, _, _ in settings}) == len(settings)
    assert all(key.startswith("NCCL_") for _, environment, _ in settings for key in environment)


def test_fewer_than_two_gpus_are_refused(tmp_path):
    done = subprocess.run([sys.executable, PROGRAM, "--gpus", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "two GPUs are needed" in done.stderr and not list(tmp_path.iterdir())
