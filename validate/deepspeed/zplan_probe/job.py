"""What is to be run: values only, resolved, with nothing left to the environment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping

from .errors import ProbeError

Json = Mapping[str, Any]

FINETUNES = ("full", "lora", "qlora", "freeze")
PRECISIONS = ("bf16", "fp16", "fp32")
OPTIMIZERS = ("deepspeed-adamw", "torch-adamw-fused", "torch-adamw-foreach", "bitsandbytes-adamw8bit")
ATTENTIONS = {"sdpa": "sdpa", "flash": "flash_attention_2", "eager": "eager"}  # as transformers names them
KERNELS = ("fused_linear_cross_entropy", "rms_norm", "rope", "swiglu")  # Liger's
RECOMPUTE_IMPLS = ("non-reentrant", "reentrant")
LOADS = ("cpu", "gpu")


@dataclass(frozen=True)
class Workload:
    """What is trained and how the script is written: `workload` of a record, with its names."""

    seq_len: int
    finetune: str = "full"
    lora_rank: int = 16
    lora_dropout: float = 0.0
    adapter_autocast: bool = True  # peft keeps adapters in fp32
    freeze_layers: int = 0
    precision: str = "bf16"  # of the module
    optimizer: str = "deepspeed-adamw"
    parameter_groups: int = 1  # 2: the Trainer's decay and no-decay split
    attention: str = "sdpa"
    recompute: str = "none"  # none, full, every-N
    recompute_impl: str = "non-reentrant"
    recompute_offload: bool = False
    kernels: tuple[str, ...] = ()
    load: str = "cpu"  # stages 0 to 2: where the weights are before deepspeed.initialize
    attention_mask: bool = False
    zero_init: bool = True  # stage 3: built under deepspeed.zero.Init

    @property
    def recompute_every(self) -> int:
        """Every n-th layer is recomputed; 0: none."""
        return 0 if self.recompute == "none" else 1 if self.recompute == "full" else int(self.recompute[6:])

    @property
    def adapters(self) -> bool:
        return self.finetune in ("lora", "qlora")


@dataclass(frozen=True)
class Job:
    """One run of one rank. `model_config` holds the keys of the model's config.json, overrides applied."""

    id: str
    model: str
    model_config: Json
    workload: Workload
    ds_config: Json
    world_size: int = 1
    rank: int = 0
    model_overrides: Json = field(default_factory=dict)
    alloc_conf: str = ""
    capacity_bytes: int | None = None
    cpu_threads: int | None = None
    interconnect: str | None = None  # of the planned machine: nvlink, pcie
    gpu: str | None = None  # planned; measured records name the real one
    versions: Json = field(default_factory=dict)  # planned
    evaluate: bool = False  # an evaluation forward after the last step

    @property
    def micro_batch(self) -> int:
        return int(self.ds_config["train_micro_batch_size_per_gpu"])

    @property
    def grad_accum(self) -> int:
        return int(self.ds_config["gradient_accumulation_steps"])

    @property
    def stage(self) -> int:
        return int(self.ds_config.get("zero_optimization", {}).get("stage", 0))

    def offloads(self, what: str) -> bool:
        """Whether `optimizer` or `param` is kept off the GPU."""
        section = self.ds_config.get("zero_optimization", {}).get(f"offload_{what}") or {}
        return section.get("device", "none") not in ("none", None)


def one_of(value: Any, known: Any, where: str) -> Any:
    if value not in known:
        raise ProbeError(where, f"'{value}' is not known", "use " + ", ".join(known))
    return value


def check_recompute(value: str, where: str) -> str:
    if value not in ("none", "full") and not re.fullmatch(r"every-[1-9]\d*", value):
        raise ProbeError(where, f"'{value}' is not known", "use none, full or every-N")
    return value


def workload_of(said: Json, where: str) -> Workload:
    """The workload of a record, a plan or a simulation. Keys that repeat the ds_config are left to it."""

    def get(key: str, default: Any) -> Any:
        value = said.get(key)
        return default if value is None else value

    if not isinstance(said.get("seq_len"), int) or said["seq_len"] < 1:
        raise ProbeError(f"{where}/seq_len", "the tokens of a sequence are not said", "write a whole number")
    kernels = [one_of(kernel, KERNELS, f"{where}/kernels") for kernel in get("kernels", [])]
    if get("fused_loss", False) and KERNELS[0] not in kernels:
        kernels.append(KERNELS[0])
    return Workload(
        seq_len=said["seq_len"],
        finetune=one_of(get("finetune", "full"), FINETUNES, f"{where}/finetune"),
        lora_rank=int(get("lora_rank", 16)),
        lora_dropout=float(get("lora_dropout", 0)),
        adapter_autocast=bool(get("adapter_autocast", True)),
        freeze_layers=int(get("freeze_layers", 0)),
        precision=one_of(get("precision", "bf16"), PRECISIONS, f"{where}/precision"),
        optimizer=one_of(get("optimizer", OPTIMIZERS[0]), OPTIMIZERS, f"{where}/optimizer"),
        parameter_groups=int(get("parameter_groups", 1)),
        attention=one_of(get("attention", "sdpa"), ATTENTIONS, f"{where}/attention"),
        recompute=check_recompute(get("recompute", "none"), f"{where}/recompute"),
        recompute_impl=one_of(get("recompute_impl", "non-reentrant"), RECOMPUTE_IMPLS, f"{where}/recompute_impl"),
        recompute_offload=bool(get("recompute_offload", False)),
        kernels=tuple(kernels),
        load=one_of(get("load", "cpu"), LOADS, f"{where}/load"),
        attention_mask=bool(get("attention_mask", False)),
        zero_init=bool(get("zero_init", True)),
    )


def workload_json(job: Job) -> dict[str, Any]:
    """`workload` of the record: the usual keys always, the rare ones where they depart from the default."""
    w, usual = job.workload, Workload(seq_len=1)
    said: dict[str, Any] = {
        "seq_len": w.seq_len,
        "micro_batch": job.micro_batch,
        "grad_accum": job.grad_accum,
        "recompute": w.recompute,
        "recompute_impl": w.recompute_impl,
        "attention": w.attention,
        "finetune": w.finetune,
        "lora_rank": w.lora_rank if w.adapters else None,
        "precision": w.precision,
        "optimizer": w.optimizer,
        "model_overrides": dict(job.model_overrides),
        "fused_loss": KERNELS[0] in w.kernels,
        "kernels": list(w.kernels),
        "load": w.load,
    }
    rare = ("parameter_groups", "attention_mask", "recompute_offload", "lora_dropout", "adapter_autocast", "zero_init")
    said.update({key: getattr(w, key) for key in rare if getattr(w, key) != getattr(usual, key)})
    if w.finetune == "freeze":
        said["freeze_layers"] = w.freeze_layers
    return said
