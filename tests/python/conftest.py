"""What the Python tests share: the plans that zplan_emit_fixture wrote, and a tiny model made here, without a hub."""

import importlib.util
import json
import os
import pathlib

import pytest

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


CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A random Qwen3 of four layers with a byte-level tokenizer, as a folder that from_pretrained reads."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("tiny-qwen3")
    words = ["<pad>", "<|im_start|>", "<|im_end|>"] + sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, pad_token="<pad>", eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=512, pad_token_id=0, eos_token_id=2,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def rows(tmp_path_factory):
    """64 rows, half of either form."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with path.open("w") as out:
        for i in range(64):
            if i % 2:
                row = {"prompt": f"What is {i} plus {i}?", "response": f"{2 * i}"}
            else:
                row = {"messages": [{"role": "user", "content": f"Count on from {i}."},
                                    {"role": "assistant", "content": f"{i + 1} {i + 2}"}]}
            out.write(json.dumps(row) + "\n")
    return path
