"""train.py as it is, on the CPU and without DeepSpeed: it learns, trains what it should and refuses bad rows."""

import json
import subprocess
import sys

import pytest
import torch
from conftest import TRAIN_PY


def run(train, monkeypatch, model, rows, output, *arguments):
    """main() with the arguments of a short run; the losses it logged."""
    monkeypatch.setattr(sys, "argv", [
        "train.py", "--model_name_or_path", str(model), "--data", str(rows), "--output_dir", str(output),
        "--seq_len", "64", "--use_cpu", "true", "--per_device_train_batch_size", "4", "--max_steps", "8",
        "--learning_rate", "5e-3", "--logging_steps", "1", "--save_strategy", "no", "--report_to", "none",
        "--disable_tqdm", "true", *arguments,
    ])  # fmt: skip
    train.main()
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    return [entry["loss"] for entry in history if "loss" in entry]


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


CHECKPOINTING = ["--gradient_checkpointing", "true", "--gradient_checkpointing_kwargs"]


@pytest.mark.parametrize("arguments", [
    [],
    ["--packing", "true"],
    CHECKPOINTING + ['{"use_reentrant":false}'],
    CHECKPOINTING + ['{"use_reentrant":true}', "--attn_implementation", "eager"],
    CHECKPOINTING + ['{"use_reentrant":false,"every_n_layers":2}'],
    ["--finetune", "lora", "--lora_rank", "4", "--learning_rate", "5e-2"],
    ["--finetune", "lora"] + CHECKPOINTING + ['{"use_reentrant":true}'],
    ["--finetune", "freeze", "--freeze_layers", "2"],
], ids=" ".join)  # fmt: skip
def test_the_loss_falls(train, monkeypatch, tiny_model, rows, tmp_path, arguments):
    losses = run(train, monkeypatch, tiny_model, rows, tmp_path, *arguments)
    assert len(losses) == 8 and all(torch.isfinite(torch.tensor(losses)))
    assert losses[-1] < 0.95 * losses[0], losses


def test_runs_as_a_program(tiny_model, rows, tmp_path):
    done = subprocess.run(
        [sys.executable, TRAIN_PY, "--model_name_or_path", tiny_model, "--data", rows, "--output_dir", tmp_path,
         "--seq_len", "64", "--use_cpu", "true", "--max_steps", "2", "--report_to", "none"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "64 rows of 64 tokens" in done.stdout
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {path.name for path in tmp_path.iterdir()}


def test_checkpointing_changes_no_loss(train, monkeypatch, tiny_model, rows, tmp_path):
    plain = run(train, monkeypatch, tiny_model, rows, tmp_path / "a")
    checkpointed = run(train, monkeypatch, tiny_model, rows, tmp_path / "b", *CHECKPOINTING, '{"use_reentrant":false}')
    assert checkpointed == pytest.approx(plain, rel=1e-4)


def test_frozen_layers_keep_their_weights(train, monkeypatch, tiny_model, rows, tmp_path):
    run(train, monkeypatch, tiny_model, rows, tmp_path, "--finetune", "freeze", "--freeze_layers", "2")
    before, after = weights(tiny_model), weights(tmp_path)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert any(name.startswith("model.layers.2.") for name in changed)
    assert not any(name.startswith(("model.embed_tokens.", "model.layers.0.", "model.layers.1.")) for name in changed)


def test_lora_trains_an_adapter_of_the_rank(train, monkeypatch, tiny_model, rows, tmp_path):
    from safetensors.torch import load_file

    run(train, monkeypatch, tiny_model, rows, tmp_path, "--finetune", "lora", "--lora_rank", "4")
    adapter = load_file(tmp_path / "adapter_model.safetensors")
    assert len(adapter) == 4 * 7 * 2  # layers x linears x (A, B)
    assert {min(tensor.shape) for tensor in adapter.values()} == {4}


def test_padding_at_the_end_needs_no_mask(train, tiny_model, rows):
    """The claim in train.py: the loss of padded rows without an attention mask is that with one."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    script = train.ScriptArguments(str(tiny_model), str(rows), seq_len=96)
    batch = train.load_rows(script, tokenizer, print)[:4]
    ids = torch.stack([row["input_ids"] for row in batch])
    labels = torch.stack([row["labels"] for row in batch])
    mask = (ids != tokenizer.pad_token_id).long()
    assert mask.sum() < mask.numel()
    without = model(input_ids=ids, labels=labels).loss.item()
    assert without == pytest.approx(model(input_ids=ids, labels=labels, attention_mask=mask).loss.item(), rel=1e-5)


def test_every_row_has_the_planned_length_and_labels_of_the_response(train, tiny_model, rows):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    for packing in (False, True):
        script = train.ScriptArguments(str(tiny_model), str(rows), seq_len=48, packing=packing)
        loaded = train.load_rows(script, tokenizer, print)
        assert {tuple(row[name].shape) for row in loaded for name in row} == {(48,)}
    ids, labels = train.sample({"prompt": "What is 1 plus 1?", "response": "2"}, tokenizer)
    assert tokenizer.decode([i for i in labels if i != -100]) == "2<|im_end|>\n"
    assert tokenizer.decode(ids[: labels.count(-100)]) == "<|im_start|>user\nWhat is 1 plus 1?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("line, message", [
    ("{", "rows.jsonl:2: not JSON"),
    ('{"text": "x"}', "rows.jsonl:2: needs prompt and response"),
    ("[1]", "rows.jsonl:2: needs prompt and response"),
    ('{"messages": [{"role": "user", "content": "x"}]}', "rows.jsonl:2: needs prompt and response"),
])  # fmt: skip
def test_a_bad_row_is_named(train, tmp_path, line, message):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "a", "response": "b"}\n' + line + "\n")
    with pytest.raises(SystemExit, match=message):
        list(train.read_rows(path))


def test_rows_without_a_response_in_reach_are_refused(train, tiny_model, tmp_path):
    from transformers import AutoTokenizer

    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"prompt": "x" * 100, "response": "y"}) + "\n")
    with pytest.raises(SystemExit, match="no row has a response within 16 tokens"):
        train.load_rows(train.ScriptArguments("", str(path), seq_len=16), AutoTokenizer.from_pretrained(tiny_model), print)
