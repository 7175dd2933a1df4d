"""One rank's run from its first allocation to its record. torch is imported in here, after the environment is set."""

from __future__ import annotations

import sys
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import ProbeError
from .job import Job
from .ranks import Place, join, leave

if TYPE_CHECKING:
    from .history import History
    from .measurement import Measurement
    from .meter import Meter
    from .training import Trainer

MEASURED, OUT_OF_MEMORY, INPUT_ERROR, FAILED = 0, 1, 2, 3  # exit codes, as zplan-validate has them
TIMED_STEPS = 3  # of real ranks: the first of them still settle the allocator


@dataclass(frozen=True)
class Limits:
    """How much is measured, with what, and where it is written."""

    device: str = "cuda"  # or cpu
    steps: int = 3
    timed_steps: int | None = None  # None: TIMED_STEPS with real ranks, none with a stand-in
    weights: str | None = None
    out: str = "measurements.json"
    history: str | None = None


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Progress:
    """Ends a phase: reads the meter, writes the record, says where the run is."""

    def __init__(self, meter: Meter, record: Measurement, history: History | None, talks: bool) -> None:
        self.meter, self.record, self.history, self.talks = meter, record, history, talks
        self.after = "the launch"

    def mark(self, phase: str, step: int | None = None, micro_step: int | None = None) -> None:
        figures = self.meter.read()
        self.record.add(phase, figures, step, micro_step)
        if self.history:
            self.history.mark(phase, figures, step, micro_step)
        self.after = phase if step is None else f"{phase} of step {step}.{micro_step}"
        if self.talks:
            allocated, reserved = (figures.device[key] / 2**30 for key in ("allocated_peak", "reserved_peak"))
            say(
                f"{self.after:22} {figures.seconds:7.1f} s   "
                f"allocated {allocated:6.1f} GiB, reserved {reserved:6.1f} GiB, host {figures.rss / 2**30:6.1f} GiB"
            )


def train(trainer: Trainer, limits: Limits, progress: Progress, timed: bool) -> None:
    from .training import timed_steps

    losses, seconds = [], []
    for step in range(limits.steps):
        began = time.perf_counter()
        trainer.step(progress.mark, step)
        seconds.append(round(time.perf_counter() - began, 4))
        losses.append(round(trainer.loss(), 4))
    progress.record.skipped(int(getattr(trainer.engine, "skipped_steps", 0)))
    if trainer.job.evaluate:
        trainer.evaluate()
        progress.mark("eval")
    if timed:  # a stand-in sends nothing and sees no other rank's rows: its times and losses say nothing
        count = TIMED_STEPS if limits.timed_steps is None else limits.timed_steps
        progress.record.set(
            losses=losses,
            step_seconds=seconds,
            loop_step_seconds=timed_steps(trainer, count, progress.meter.synchronize),
        )


def run(job: Job, limits: Limits, place: Place, device: str, progress: Progress) -> None:
    from . import components, model, training

    record = progress.record
    join(place, limits.device)
    progress.mark("start")
    built, held = model.build(job, device, limits.weights)
    record.set(parameters=model.parameters_of(built))
    progress.mark("load")
    engine, classes = training.initialize(job, built)
    record.set(optimizer_classes=classes)
    progress.mark("init")
    train(training.Trainer(job, engine, device), limits, progress, timed=place.kind != "fake")
    record.finish("ok", components=components.held(engine, limits.device))
    del held
    leave()


def failed(place: Place, progress: Progress, what: str) -> dict[str, Any]:
    return {"rank": place.rank, "where": f"after {progress.after}", "what": what[:1500]}


def measure(job: Job, limits: Limits, place: Place) -> int:
    """Runs the job on this rank and writes its record; the exit code."""
    import torch

    from .history import History
    from .measurement import Measurement, path_of
    from .meter import CudaMeter, HostMeter

    cuda, alone = limits.device == "cuda", place.kind == "fake"
    if cuda and torch.cuda.device_count() <= place.local_rank:
        raise ProbeError(
            "--device cuda",
            f"rank {place.rank} needs GPU {place.local_rank}; torch sees {torch.cuda.device_count()}",
            "run it on the machine that will train; --device cpu only tries the probe",
        )
    if job.cpu_threads:
        torch.set_num_threads(job.cpu_threads)
    if cuda:
        torch.cuda.init()
    talks = alone or place.rank == 0
    history = History() if limits.history and cuda and talks else None  # before the first allocation
    meter: Meter = CudaMeter(place.local_rank, job.capacity_bytes) if cuda else HostMeter()
    facts = {**({"gpu": job.gpu} if job.gpu else {}), **meter.facts(), "threads": torch.get_num_threads()}
    progress = Progress(meter, Measurement(job, place, facts, path_of(limits.out, place.rank, alone)), history, talks)
    record = progress.record
    try:
        run(job, limits, place, f"cuda:{place.local_rank}" if cuda else "cpu", progress)
        return MEASURED
    except ProbeError as error:
        record.finish("failed", failure=failed(place, progress, str(error)))
        raise
    except torch.cuda.OutOfMemoryError as error:
        after = progress.after
        progress.mark("oom")
        record.finish("oom", oom_message=str(error)[:1500])
        say(f"probe.py: out of device memory after {after}: {str(error)[:300]}")
        return OUT_OF_MEMORY
    except Exception as error:
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        record.finish("failed", failure=failed(place, progress, what))
        say(f"probe.py: failed after {progress.after}: {what.splitlines()[0][:300]}")
        return FAILED
    finally:
        if history:
            history.write(str(limits.history), record.said)
