"""The 4-bit weights of QLoRA, by bitsandbytes: NF4 with quantised scales, as train.py asks for."""

from __future__ import annotations

from typing import Any

import torch

from .errors import ProbeError
from .job import Job


def loading_options(job: Job, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """What train.py gives to from_pretrained."""
    from transformers import BitsAndBytesConfig

    zero3 = job.stage == 3
    # ZeRO-3 flattens all weights of a layer together: the 4-bit ones have to be stored in the same dtype.
    options: dict[str, Any] = {
        "quantization_config": BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
            bnb_4bit_quant_storage=dtype if zero3 else torch.uint8,
        )
    }
    if not zero3:
        options["device_map"] = {"": device}
    return options


def quantize(job: Job, model: Any, device: str) -> Any:
    """Every linear of a random model but the head in 4 bits, on the GPU."""
    if job.stage == 3:
        raise ProbeError(
            "--finetune qlora",
            "in stage 3 the weights are quantised while they are loaded",
            "add --weights with a folder of the model",
        )
    import bitsandbytes

    for path, linear in [
        (path, module)
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and "lm_head" not in path
    ]:
        four_bit = bitsandbytes.nn.Linear4bit(
            linear.in_features,
            linear.out_features,
            bias=linear.bias is not None,
            compute_dtype=linear.weight.dtype,
            quant_type="nf4",
            compress_statistics=True,
        )
        four_bit.weight = bitsandbytes.nn.Params4bit(
            linear.weight.data.cpu(), requires_grad=False, quant_type="nf4", compress_statistics=True
        )
        if linear.bias is not None:
            four_bit.bias = linear.bias
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, four_bit.to(device))
        linear.weight = None  # one weight at a time in both forms
    model = model.to(device)
    torch.cuda.empty_cache()
    return model
