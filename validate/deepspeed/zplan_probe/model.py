"""The Hugging Face model of a job, in the state in which deepspeed.initialize gets it: random or local weights,
adapters, frozen layers, kernels and checkpointing, in the order in which train.py and the Trainer apply them."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator

import torch

from . import quantized
from .errors import ProbeError
from .job import ATTENTIONS, Job

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
TILE = 1 << 20  # random values that are repeated over a tensor in host memory


def model_class(job: Job) -> tuple[Any, type]:
    """transformers' config of the job, and the class of its causal language model."""
    import transformers

    keys = dict(job.model_config)
    try:
        config = transformers.AutoConfig.for_model(keys.pop("model_type"), **keys)
        found = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    except (KeyError, ValueError) as error:
        raise ProbeError(
            f"model {job.model}",
            f"transformers {transformers.__version__} has no such causal " f"language model: {error}",
            "install a newer transformers",
        )
    config.use_cache = False
    config._attn_implementation = ATTENTIONS[job.workload.attention]
    return config, found


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def without_initialisation() -> Iterator[None]:
    """Weights stay as they were allocated, but ties are made: values are filled in afterwards, at the speed of memory.

    Initialising works in place, so that this changes no byte of what is allocated.
    """
    import transformers

    base = transformers.PreTrainedModel  # of the whole model and of the decoder in it: both initialise themselves
    names = ("kaiming_uniform_", "uniform_", "normal_", "trunc_normal_")
    saved = {name: getattr(torch.nn.init, name) for name in names}
    own = base.init_weights
    base.init_weights = lambda self, *_, **__: self.tie_weights()
    for name in names:
        setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
    try:
        yield
    finally:
        for name, function in saved.items():
            setattr(torch.nn.init, name, function)
        base.init_weights = own


@torch.no_grad()
def fill(model: torch.nn.Module, seed: int, std: float = 0.02) -> None:
    """Random weights: matrices N(0, std), norms 1, biases 0. Nothing is allocated on the GPU for it.

    Zeros or constants would draw less power and run faster than a real job.
    """
    torch.manual_seed(seed)
    tile = torch.randn(TILE) * std
    for name, parameter in model.named_parameters():
        dimensions = len(getattr(parameter, "ds_shape", parameter.shape))
        local = parameter.data if getattr(parameter, "ds_tensor", None) is None else parameter.ds_tensor.data
        if local.numel() == 0:  # on the drive, or nothing of it is here
            continue
        if dimensions < 2:
            local.fill_(0.0 if name.endswith("bias") else 1.0)
        elif local.device.type == "cpu":
            flat, values = local.reshape(-1), tile.to(local.dtype)  # of contiguous memory: a view
            for begin in range(0, flat.numel(), TILE):
                part = flat[begin : begin + TILE]
                part.copy_(values[: part.numel()])
        else:
            local.normal_(0.0, std)


def random_model(job: Job, device: str) -> torch.nn.Module:
    """From the config alone. Stage 3: each weight is split as soon as its module is made, as from_pretrained does."""
    config, cls = model_class(job)
    dtype = DTYPES[job.workload.precision]
    where: Any = contextlib.nullcontext()
    if job.stage == 3 and job.workload.zero_init:
        import deepspeed

        where = deepspeed.zero.Init(config_dict_or_path=dict(job.ds_config), dtype=dtype)
    elif job.workload.load == "gpu" or job.stage == 3:
        where = torch.device(device)
    with default_dtype(dtype), without_initialisation(), where:
        model = cls(config)
    # Below stage 3 DeepSpeed sends rank 0's weights to all; in stage 3 every rank holds another part.
    fill(model, seed=job.rank if job.stage == 3 else 0)
    return model


def local_model(job: Job, weights: str, device: str) -> tuple[torch.nn.Module, Any]:
    """From a folder of from_pretrained, as train.py loads it. What is returned beside it must live as long as it."""
    import transformers
    from transformers.integrations import HfDeepSpeedConfig

    held = HfDeepSpeedConfig(dict(job.ds_config))  # how from_pretrained learns of ZeRO-3
    dtype = DTYPES[job.workload.precision]
    options: dict[str, Any] = {"attn_implementation": ATTENTIONS[job.workload.attention]}
    options["dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"] = dtype
    if job.workload.finetune == "qlora":
        options.update(quantized.loading_options(job, dtype, device))
    elif job.workload.load == "gpu" and job.stage < 3:
        options["device_map"] = {"": device}
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(weights, **options)
    except OSError as error:
        raise ProbeError(
            f"--weights {weights}", str(error).splitlines()[0], "name a folder with config.json and .safetensors"
        )
    model.config.use_cache = False
    return model, held


def add_adapters(job: Job, model: torch.nn.Module) -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model

    rank = job.workload.lora_rank
    adapters = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=job.workload.lora_dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(model, adapters, autocast_adapter_dtype=job.workload.adapter_autocast)
    if job.workload.recompute != "none":  # frozen embeddings would leave a checkpointed layer without a gradient
        model.enable_input_require_grads()
    return model


def freeze(job: Job, model: Any) -> None:
    """The embedding and the first layers do not train."""
    model.get_input_embeddings().requires_grad_(False)
    for layer in model.base_model.layers[: job.workload.freeze_layers]:
        layer.requires_grad_(False)


def use_kernels(job: Job, model: Any) -> None:
    """Liger's kernels, patched into the instance as the Trainer does."""
    from liger_kernel.transformers import _apply_liger_kernel_to_instance

    chosen = {
        name: name in job.workload.kernels for name in ("rope", "rms_norm", "swiglu", "fused_linear_cross_entropy")
    }
    base = model.get_base_model() if hasattr(model, "get_base_model") else model  # of peft's wrapper
    _apply_liger_kernel_to_instance(model=base, cross_entropy=False, **chosen)


def checkpoint(job: Job, model: Any) -> None:
    """Gradient checkpointing of every n-th layer, as Trainer.__init__ asks for it."""
    options: dict[str, Any] = {
        "gradient_checkpointing_kwargs": {"use_reentrant": job.workload.recompute_impl == "reentrant"}
    }
    if job.workload.recompute_every > 1:
        options["every_n_layers"] = job.workload.recompute_every
    if job.workload.recompute_offload:
        options["offload"] = True
    try:
        model.gradient_checkpointing_enable(**options)
    except TypeError as error:  # an argument that this transformers does not know
        raise ProbeError(f"recompute {job.workload.recompute}", str(error), "install a newer transformers")


def build(job: Job, device: str, weights: str | None = None) -> tuple[torch.nn.Module, Any]:
    """The model and what must be kept alive with it. `device`: where this rank computes, such as cuda:0."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    held = None
    if weights:
        model, held = local_model(job, weights, device)
    else:
        model = random_model(job, device)
        if job.workload.finetune == "qlora":
            model = quantized.quantize(job, model, device)
    if job.workload.adapters:
        model = add_adapters(job, model)
    elif job.workload.finetune == "freeze":
        freeze(job, model)
    if job.workload.kernels:
        use_kernels(job, model)
    if job.workload.recompute != "none":
        checkpoint(job, model)
    model.train()
    return model, held


def parameters_of(model: torch.nn.Module) -> int:
    """Elements of all parameters, whole, also where a rank holds a part."""
    return sum(int(getattr(parameter, "ds_numel", parameter.numel())) for parameter in model.parameters())
