"""Fine-tunes a causal language model with the Hugging Face Trainer. Started by launch.sh, or by hand on one device:

    python3 train.py --model_name_or_path Qwen/Qwen3-0.6B --data rows.jsonl --output_dir output

A row is one JSON object a line: {"prompt": "...", "response": "..."}, or {"messages": [{"role": "user", "content":
"..."}, {"role": "assistant", "content": "..."}]}. The loss counts the tokens of the (last) response.
Needs transformers 4.56 or later; peft for --finetune lora and qlora, bitsandbytes for qlora.

What the predicted memory rests on, so keep it if you change this file:
- Every row has exactly --seq_len tokens. Longer rows are cut, shorter ones are padded at their end. No attention mask
  is passed: causal attention never looks at what follows, and padding has no labels. (With a mask, sdpa would build
  [batch, 1, seq_len, seq_len] and repeat keys and values for every head.)
- TrainingArguments come before the model: only then does ZeRO-3 split each weight as it is loaded.
- Under DeepSpeed the weights are in the training precision; its optimizer keeps the 32-bit copy.
- The optimizer is the one of ds_config.json, with one parameter group, unless launch.sh names one with --optim.
- No evaluation. Its logits, kept for metrics, can need more than training.
"""

import json
import os
from dataclasses import dataclass, field

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


@dataclass
class ScriptArguments:
    model_name_or_path: str = field(metadata={"help": "a folder or a name on the hub"})
    data: str = field(metadata={"help": "JSONL file with prompt and response, or messages"})
    seq_len: int = field(default=2048, metadata={"help": "tokens of every row"})
    packing: bool = field(default=False, metadata={"help": "fill rows with several samples, which see each other"})
    finetune: str = field(default="full", metadata={"choices": ["full", "lora", "qlora", "freeze"]})
    lora_rank: int = field(default=16)
    lora_alpha: int = field(default=0, metadata={"help": "0: twice the rank"})
    freeze_layers: int = field(default=0, metadata={"help": "freeze: the embedding and so many first layers"})
    attn_implementation: str = field(default="sdpa")


def sample(row, tokenizer):
    """The token ids of one row, and its labels: -100 up to where the last response begins."""
    messages = row.get("messages")
    if messages is None and tokenizer.chat_template:
        messages = [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["response"]}]
    if messages is not None:
        before = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
        text = tokenizer.apply_chat_template(messages, tokenize=False)
    else:
        before = row["prompt"]
        text = before + row["response"] + (tokenizer.eos_token or "")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    prompt = tokenizer(before, add_special_tokens=False)["input_ids"]
    differ = (i for i, (a, b) in enumerate(zip(prompt, ids)) if a != b)
    shared = next(differ, min(len(prompt), len(ids)))
    return ids, [-100] * shared + ids[shared:]


def is_row(row):
    if not isinstance(row, dict):
        return False
    if messages := row.get("messages"):
        return messages[-1].get("role") == "assistant"
    return isinstance(row.get("prompt"), str) and isinstance(row.get("response"), str)


def read_rows(path):
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise SystemExit(f"{path}:{number}: not JSON: {error}")
            if not is_row(row):
                raise SystemExit(f"{path}:{number}: needs prompt and response, or messages that end with a response")
            yield row


def load_rows(script, tokenizer, say):
    """Rows of exactly seq_len tokens. Those whose response lies behind it have nothing to learn and are left out."""
    pad = next(i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id, 0) if i is not None)
    samples = [sample(row, tokenizer) for row in read_rows(script.data)]
    longer = sum(len(ids) > script.seq_len for ids, _ in samples)
    if script.packing:
        ids = [i for sample_ids, _ in samples for i in sample_ids]
        labels = [i for _, sample_labels in samples for i in sample_labels]
        blocks = [slice(i, i + script.seq_len) for i in range(0, len(ids), script.seq_len)]
        samples = [(ids[block], labels[block]) for block in blocks]
    rows = []
    for ids, labels in samples:
        ids, labels = ids[: script.seq_len], labels[: script.seq_len]
        if all(label == -100 for label in labels[1:]):
            continue
        padding = script.seq_len - len(ids)
        input_ids, labels = ids + [pad] * padding, labels + [-100] * padding
        rows.append({"input_ids": torch.tensor(input_ids), "labels": torch.tensor(labels)})
    say(f"{script.data}: {len(rows)} rows of {script.seq_len} tokens; {longer} samples were longer")
    if not rows:
        raise SystemExit(f"{script.data}: no row has a response within {script.seq_len} tokens")
    return rows


def load_model(script, training):
    half = torch.bfloat16 if training.bf16 else torch.float16 if training.fp16 else torch.float32
    # Without DeepSpeed nothing keeps a 32-bit copy, so the weights themselves stay in 32 bits.
    dtype = half if training.deepspeed else torch.float32
    options = {"dtype": dtype, "attn_implementation": script.attn_implementation}
    if script.finetune == "qlora":
        from transformers import BitsAndBytesConfig
        from transformers.integrations import is_deepspeed_zero3_enabled

        # ZeRO-3 flattens all weights of a layer together: the 4-bit ones have to be stored in the same dtype.
        zero3 = is_deepspeed_zero3_enabled()
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=half,
            bnb_4bit_quant_storage=half if zero3 else torch.uint8,
        )
        if not zero3:
            options["device_map"] = {"": int(os.environ.get("LOCAL_RANK", 0)) if torch.cuda.is_available() else "cpu"}
    model = AutoModelForCausalLM.from_pretrained(script.model_name_or_path, **options)
    model.config.use_cache = False
    if script.finetune in ("lora", "qlora"):
        from peft import LoraConfig, get_peft_model

        alpha = script.lora_alpha or 2 * script.lora_rank
        model = get_peft_model(
            model, LoraConfig(r=script.lora_rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
        )
        if training.gradient_checkpointing:  # frozen embeddings would leave a checkpointed layer without a gradient
            model.enable_input_require_grads()
    elif script.finetune == "freeze":
        model.get_input_embeddings().requires_grad_(False)
        for layer in model.base_model.layers[: script.freeze_layers]:
            layer.requires_grad_(False)
    return model


def main():
    script, training = HfArgumentParser((ScriptArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    say = print if training.process_index == 0 else lambda *_: None
    tokenizer = AutoTokenizer.from_pretrained(script.model_name_or_path)
    rows = load_rows(script, tokenizer, say)
    trainer = Trainer(
        model=load_model(script, training),
        args=training,
        train_dataset=rows,
        data_collator=default_data_collator,
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    trainer.save_state()  # trainer_state.json: the loss of every logged step
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if losses:
        say(f"loss: {losses[0]:.4f} at first, {losses[-1]:.4f} at last, {trainer.state.global_step} steps")
    if torch.cuda.is_available():
        allocated, reserved = torch.cuda.max_memory_allocated() / 2**30, torch.cuda.max_memory_reserved() / 2**30
        print(f"rank {training.process_index}: at most {allocated:.1f} GiB allocated, {reserved:.1f} GiB reserved")
    trainer.save_model()


if __name__ == "__main__":
    main()
