"""A random Qwen3 with a byte-level tokenizer, and rows to train on, made here: no hub, no download.

    python3 tiny_model.py FOLDER [name=value of Qwen3Config ...]     writes FOLDER and FOLDER/rows.jsonl
"""

import json
import pathlib
import sys

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHAPE = dict(
    hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, vocab_size=259, max_position_embeddings=4096, tie_word_embeddings=False,
)  # fmt: skip


def make_model(folder, **shape):
    """Writes the model of this shape; the first 259 words of any vocabulary are the tokenizer's."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = ["<pad>", "<|im_start|>", "<|im_end|>"] + sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, pad_token="<pad>", eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(**{**SHAPE, **shape}, pad_token_id=0, eos_token_id=2)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def make_rows(path, count=64):
    """Rows of both forms by turns."""
    with open(path, "w") as out:
        for i in range(count):
            if i % 2:
                row = {"prompt": f"What is {i} plus {i}?", "response": f"{2 * i}"}
            else:
                row = {"messages": [{"role": "user", "content": f"Count on from {i}."},
                                    {"role": "assistant", "content": f"{i + 1} {i + 2}"}]}  # fmt: skip
            out.write(json.dumps(row) + "\n")
    return path


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    make_model(target, **{name: json.loads(value) for name, _, value in (a.partition("=") for a in sys.argv[2:])})
    make_rows(target / "rows.jsonl", count=4096)
