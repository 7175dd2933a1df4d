"""What the Python tests share: the plans that zplan_emit_fixture wrote, and a tiny model."""

import importlib.util
import json
import os
import pathlib

import pytest
from tiny_model import make_model, make_rows

# One thread: the model is too small for two, and ctest runs several files at once.
os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", DS_ACCELERATOR="cpu")

ROOT = pathlib.Path(__file__).parents[2]
PLANS = pathlib.Path(os.environ["ZPLAN_PLANS"])
TRAIN_PY = ROOT / "src/io/templates/train.py"


class Plan:
    """One folder of zplan_emit_fixture: the files a user gets, and what they should mean."""

    def __init__(self, folder):
        self.folder, self.name = folder, folder.name
        self.expected = json.loads((folder / "expected.json").read_text())
        self.ds_config = folder / "ds_config.json"
        self.launch = folder / "launch.sh"


ALL_PLANS = [Plan(folder) for folder in sorted(PLANS.iterdir())]
assert len(ALL_PLANS) >= 12, f"{PLANS}: run zplan_emit_fixture first"


def each_plan(*, only=lambda plan: True):
    chosen = [plan for plan in ALL_PLANS if only(plan)]
    assert chosen
    return pytest.mark.parametrize("plan", chosen, ids=lambda plan: plan.name)


@pytest.fixture(scope="session")
def train():
    """train.py as a module."""
    spec = importlib.util.spec_from_file_location("train", TRAIN_PY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A random Qwen3 of four layers, as a folder that from_pretrained reads."""
    return make_model(tmp_path_factory.mktemp("tiny-qwen3"))


@pytest.fixture(scope="session")
def rows(tmp_path_factory):
    """64 rows, half of either form."""
    return make_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl")
