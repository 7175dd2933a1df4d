"""What a launch.sh says: its Trainer arguments and the environment it sets, read without running it.

zplan writes one argument a line in `arguments=( ... )`. Whoever edits that file measures what is in it.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from .errors import ProbeError

OPTIMIZERS = {  # the Trainer's names; without one the optimizer is the ds_config's
    "adamw_torch_fused": "torch-adamw-fused",
    "adamw_torch": "torch-adamw-foreach",
    "adamw_bnb_8bit": "bitsandbytes-adamw8bit",
}
ATTENTIONS = {"sdpa": "sdpa", "flash_attention_2": "flash", "eager": "eager"}


def arguments_of(text: str, where: str) -> dict[str, str]:
    """Name and value of each argument; values that the shell would fill in stay as they stand ("$model")."""
    block = re.search(r"^arguments=\(\n(.*?)^\)$", text, re.M | re.S)
    if not block:
        raise ProbeError(where, "has no arguments=( ... ) as zplan writes it", "plan again, or leave the file away")
    words = shlex.split(block[1], comments=True)
    if len(words) % 2 or any(not name.startswith("--") for name in words[::2]):
        raise ProbeError(where, "its arguments are not pairs of --name value", "write one such pair a line")
    return {name[2:]: value for name, value in zip(words[::2], words[1::2])}


def exports_of(text: str) -> dict[str, str]:
    """Variables that are exported with a plain value."""
    found = {}
    for name, value in re.findall(r"^export (\w+)=(\S.*)$", text, re.M):
        if "$" not in value:
            found[name] = "".join(shlex.split(value))
    return found


def recompute_of(arguments: dict[str, str]) -> dict[str, Any]:
    if arguments.get("gradient_checkpointing", "false") != "true":
        return {"recompute": "none"}
    options = json.loads(arguments.get("gradient_checkpointing_kwargs", "{}"))
    every = options.get("every_n_layers", 1)
    return {
        "recompute": "full" if every == 1 else f"every-{every}",
        "recompute_impl": "reentrant" if options.get("use_reentrant", True) else "non-reentrant",
        "recompute_offload": bool(options.get("offload", False)),
    }


def workload_of_launch(text: str, where: str) -> dict[str, Any]:
    """The keys of a record's `workload` that launch.sh decides; what it does not say is left out."""
    arguments = arguments_of(text, where)
    said: dict[str, Any] = recompute_of(arguments)
    for key in ("seq_len", "lora_rank", "freeze_layers"):
        if key in arguments:
            said[key] = int(arguments[key])
    if "finetune" in arguments:
        said["finetune"] = arguments["finetune"]
    if "attn_implementation" in arguments:
        said["attention"] = ATTENTIONS.get(arguments["attn_implementation"], arguments["attn_implementation"])
    if "optim" in arguments:
        if arguments["optim"] not in OPTIMIZERS:
            raise ProbeError(
                f"{where}: --optim", f"'{arguments['optim']}' is not measured", "use one of " + ", ".join(OPTIMIZERS)
            )
        said["optimizer"] = OPTIMIZERS[arguments["optim"]]
    kernels = (
        json.loads(arguments.get("liger_kernel_config", "{}")) if arguments.get("use_liger_kernel") == "true" else {}
    )
    said["kernels"] = [name for name, on in kernels.items() if on and name != "cross_entropy"]
    said["fused_loss"] = "fused_linear_cross_entropy" in said["kernels"]
    said["precision"] = (
        "bf16" if arguments.get("bf16") == "true" else "fp16" if arguments.get("fp16") == "true" else "fp32"
    )
    return said


def trainer_values(text: str, where: str) -> dict[str, Any]:
    """What the Trainer would write in place of "auto" in a ds_config, from the same arguments."""
    arguments = arguments_of(text, where)
    numbers = {
        "train_micro_batch_size_per_gpu": ("per_device_train_batch_size", int),
        "gradient_accumulation_steps": ("gradient_accumulation_steps", int),
        "gradient_clipping": ("max_grad_norm", float),
        "lr": ("learning_rate", float),
        "eps": ("adam_epsilon", float),
        "weight_decay": ("weight_decay", float),
    }
    said: dict[str, Any] = {key: kind(arguments[name]) for key, (name, kind) in numbers.items() if name in arguments}
    if "adam_beta1" in arguments and "adam_beta2" in arguments:
        said["betas"] = [float(arguments["adam_beta1"]), float(arguments["adam_beta2"])]
    said["bf16"], said["fp16"] = (arguments.get(name) == "true" for name in ("bf16", "fp16"))
    return said


def environment_of_launch(text: str) -> tuple[str, int | None]:
    """The allocator's configuration, and the threads of a rank where a number stands there."""
    exports = exports_of(text)
    threads = exports.get("OMP_NUM_THREADS", "")
    return (
        exports.get("PYTORCH_ALLOC_CONF") or exports.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        int(threads) if threads.isdigit() else None,
    )
