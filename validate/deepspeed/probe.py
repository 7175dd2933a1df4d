#!/usr/bin/env python3
"""Measure a short fine-tune in DeepSpeed itself: the ds_config.json and the launch arguments that zplan wrote, a real
Hugging Face model class, a few steps, one record.

    python3 validate/deepspeed/probe.py --plan zplan-out --stand-in              one rank of the plan's, on one GPU
    torchrun --nproc_per_node 4 validate/deepspeed/probe.py --plan zplan-out     all of them, over NCCL
    python3 validate/deepspeed/probe.py --like measurements.json --stand-in --rank 3
    python3 validate/deepspeed/probe.py --ds-config ds_config.json --model qwen3-0.6b --seq-len 1024

Writes measurements.json (zplan.measurement/1), which `zplan compare` and `zplan calibrate` read. The weights are random
unless --weights names a folder. Exit codes: 0 measured, 1 out of device memory, 2 input error or a missing package,
3 failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import sys
from typing import Any, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from zplan_probe import job as jobs  # noqa: E402
from zplan_probe import packages, ranks, sources  # noqa: E402
from zplan_probe.errors import ProbeError  # noqa: E402
from zplan_probe.run import INPUT_ERROR, Limits, measure, say  # noqa: E402


def size(text: str) -> int:
    """37.5GiB, 512MiB or bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(GiB|MiB|KiB|)", text)
    value = 0 if not found else int(float(found[1]) * {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "": 1}[found[2]])
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 37.5GiB, 512MiB or bytes")
    return value


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive whole number")
    return int(text)


def count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def parser() -> argparse.ArgumentParser:
    said = argparse.ArgumentParser(
        prog="probe.py",
        description=str(__doc__).split("\n\n")[0],
        epilog="Exit codes: 0 measured, 1 out of device memory, 2 input error, 3 failed.",
    )
    what = said.add_argument_group("what to run")
    what.add_argument("--plan", metavar="PATH", help="plan.json or its folder, or the output of zplan simulate --json")
    what.add_argument("--like", metavar="RECORD", help="every input from a measurement record: FILE, or FILE.jsonl#ID")
    what.add_argument("--ds-config", metavar="FILE", help="a ds_config.json, with --model and --seq-len")
    what.add_argument("--model", help="a name in models/, or the path of a config.json; with --ds-config")
    what.add_argument("--weights", metavar="FOLDER", help="the model's .safetensors (default: random weights)")
    work = said.add_argument_group("workload (default: as --plan or --like says)")
    work.add_argument("--seq-len", type=positive, help="tokens of a sequence")
    work.add_argument("--finetune", choices=jobs.FINETUNES)
    work.add_argument("--lora-rank", type=positive)
    work.add_argument("--freeze-layers", type=count)
    work.add_argument("--optimizer", choices=jobs.OPTIMIZERS)
    work.add_argument("--attention", choices=list(jobs.ATTENTIONS))
    work.add_argument("--recompute", help="none, full or every-N")
    work.add_argument("--recompute-impl", choices=jobs.RECOMPUTE_IMPLS)
    work.add_argument("--kernels", nargs="*", choices=jobs.KERNELS, help="of Liger")
    work.add_argument("--load", choices=jobs.LOADS, help="where stages 0 to 2 have the weights at first")
    how = said.add_argument_group("ranks and limits")
    how.add_argument(
        "--stand-in", action="store_true", help="play one rank of --world on one GPU, the others by torch's fake group"
    )
    how.add_argument("--world", type=positive, help="ranks (default: the plan's, or 1)")
    how.add_argument("--rank", type=count, help="which rank to play with --stand-in")
    how.add_argument("--steps", type=positive, default=3, help="measured phase by phase (default 3)")
    how.add_argument(
        "--timed-steps", type=count, help="whole steps timed afterwards (default 3 with real ranks, else 0)"
    )
    how.add_argument("--capacity", type=size, help="limit of torch's allocator, such as 37.5GiB: another card's size")
    how.add_argument("--alloc-conf", help="PYTORCH_CUDA_ALLOC_CONF (default: the plan's)")
    how.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the probe; measures no GPU memory"
    )
    where = said.add_argument_group("files")
    where.add_argument("--out", default="measurements.json", help="the record (default measurements.json)")
    where.add_argument("--history", metavar="FILE.json.gz", help="also record the allocator's history of rank 0")
    where.add_argument("--id", help="name of the run in the record")
    return said


def job_of(options: argparse.Namespace) -> jobs.Job:
    """The job that the options name. Raises ProbeError."""
    named = [name for name in ("plan", "like", "ds_config") if getattr(options, name)]
    if len(named) != 1:
        raise ProbeError(
            "probe.py",
            "what to run is not said" if not named else "several things to run are named",
            "give one of --plan, --like and --ds-config",
        )
    if options.model and not options.ds_config:
        raise ProbeError("--model", f"--{named[0]} says the model", "leave it out, or use --ds-config")
    keys = (
        "seq_len",
        "finetune",
        "lora_rank",
        "freeze_layers",
        "optimizer",
        "attention",
        "recompute",
        "recompute_impl",
        "kernels",
        "load",
    )
    said = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    if options.plan:
        job = sources.from_plan(options.plan)
    elif options.like:
        job = sources.from_record(options.like)
    else:
        if not options.model:
            raise ProbeError("--ds-config", "no model is named", "add --model, such as --model qwen3-8b")
        return with_limits(sources.from_files(options.ds_config, options.model, said, options.world or 1), options)
    if "recompute" in said:
        jobs.check_recompute(said["recompute"], "--recompute")
    if "kernels" in said:
        said["kernels"] = tuple(said["kernels"])
    job = dataclasses.replace(job, workload=dataclasses.replace(job.workload, **said))
    return with_limits(sources.in_world(job, options.world or job.world_size), options)


def with_limits(job: jobs.Job, options: argparse.Namespace) -> jobs.Job:
    said: dict[str, Any] = {}
    for name, key in (("rank", "rank"), ("capacity", "capacity_bytes"), ("alloc_conf", "alloc_conf"), ("id", "id")):
        if getattr(options, name) is not None:
            said[key] = getattr(options, name)
    return dataclasses.replace(job, **said)


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        job = job_of(options)
        place = ranks.place_of(job, options.stand_in, os.environ, options.device)
        job = dataclasses.replace(job, rank=place.rank)
        packages.require(job, weights=bool(options.weights))
        for line in packages.differing_versions(job) if place.rank == 0 or options.stand_in else []:
            say(f"probe.py: warning: {line}")
        ranks.apply_environment(ranks.environment_of(job, place, options.device))
        limits = Limits(
            options.device, options.steps, options.timed_steps, options.weights, options.out, options.history
        )
        return measure(job, limits, place)
    except ProbeError as error:
        say(f"probe.py: error: {error}")
        return INPUT_ERROR


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
