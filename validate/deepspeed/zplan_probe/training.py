"""The steps, called as the Hugging Face Trainer and accelerate call them, with a mark at the end of each phase.

After transformers/trainer.py `training_step`, `compute_loss` and accelerate/utils/deepspeed.py
`DeepSpeedEngineWrapper.backward`: the model computes the loss from its labels, as a sum divided by the number of tokens
that count in all micro-steps of all ranks, times the ranks, since DeepSpeed averages their gradients; backward does not
divide it again; step() is called at the last micro-step.
"""

from __future__ import annotations

import inspect
import time
from typing import Any, Callable

import torch

from .job import Job

Mark = Callable[..., None]  # mark(phase, step=None, micro_step=None)


def batch(job: Job, device: str) -> dict[str, torch.Tensor]:
    """Rows of exactly seq_len random tokens, all of which count. A mask is passed only where one is asked for."""
    shape = (job.micro_batch, job.workload.seq_len)
    ids = torch.randint(0, job.model_config["vocab_size"], shape, device=device)
    said = {"input_ids": ids, "labels": ids}
    if job.workload.attention_mask:  # with padding: one of only ones would be dropped
        said["attention_mask"] = torch.ones(shape, dtype=torch.long, device=device)
        said["attention_mask"][:, -1] = 0
    return said


class Trainer:
    """An initialised engine and one batch that every micro-step repeats."""

    def __init__(self, job: Job, engine: Any, device: str) -> None:
        self.job, self.engine = job, engine
        self.inputs = batch(job, device)
        forward = inspect.signature(engine.module.forward).parameters
        self.loss_arguments: dict[str, Any] = {}
        # model_accepts_loss_kwargs of the Trainer; peft's wrapper hands on what it does not know.
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in forward.values()):
            # The first label of a row is never predicted. All ranks have rows of the same length.
            counted = job.micro_batch * (job.workload.seq_len - 1) * job.grad_accum * job.world_size
            self.loss_arguments["num_items_in_batch"] = torch.tensor(counted, device=device)

    def forward(self) -> torch.Tensor:
        outputs = self.engine(**self.inputs, **self.loss_arguments)
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs[0]
        if not self.loss_arguments:
            return loss / self.job.grad_accum
        loss *= self.job.world_size
        return loss

    def micro_step(self, last: bool, done: Mark) -> None:
        loss = self.forward()
        done("forward")
        self.engine.set_gradient_accumulation_boundary(is_boundary=last)
        self.engine.backward(loss, scale_wrt_gas=False)
        self.value = loss.detach()
        del loss
        done("backward")
        if last:
            self.engine.step()
        done("step")

    def step(self, mark: Mark | None, number: int = 0) -> None:
        for micro in range(self.job.grad_accum):
            done = (lambda *_: None) if mark is None else (lambda phase: mark(phase, number, micro))  # noqa: B023
            self.micro_step(micro == self.job.grad_accum - 1, done)

    def loss(self) -> float:
        """Of the last micro-step."""
        return float(self.value) * self.job.grad_accum

    def evaluate(self) -> None:
        self.engine.module.eval()
        with torch.no_grad():
            outputs = self.engine(**self.inputs)
            del outputs
        self.engine.module.train()


def initialize(job: Job, model: torch.nn.Module) -> tuple[Any, str]:
    """The engine, and what DeepSpeed made: wrapper/optimizer."""
    import deepspeed

    from .optimizer import arguments_of

    engine, optimizer, _, _ = deepspeed.initialize(model=model, config=dict(job.ds_config), **arguments_of(job, model))
    return engine, f"{type(optimizer).__name__}/{type(getattr(optimizer, 'optimizer', None)).__name__}"


def timed_steps(trainer: Trainer, count: int, synchronize: Callable[[], None]) -> list[float]:
    """Seconds of whole steps without a synchronisation inside: what a training loop takes."""
    found = []
    for _ in range(count):
        synchronize()
        began = time.perf_counter()
        trainer.step(None)
        synchronize()
        found.append(round(time.perf_counter() - began, 4))
    return found
