"""Where a job comes from: a plan's folder, a measurement record, or a ds_config.json with a model."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any, Mapping

from .ds_config import settled
from .errors import ProbeError
from .job import Job, workload_of
from .launch_file import environment_of_launch, trainer_values, workload_of_launch

Json = Mapping[str, Any]

NOT_OF_TRANSFORMERS = ("name", "aliases", "published_parameters", "source", "architectures")  # keys of models/*.json
ZPLANS_OWN = ("qkv_bias", "o_bias", "qk_norm")  # of a plan's resolved model


def read_json(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProbeError(str(path), error.strerror or "cannot be read", "name a file that is there")
    except ValueError as error:
        raise ProbeError(str(path), f"not JSON: {error}", "correct the file")


def models_folder() -> pathlib.Path:
    data = os.environ.get("ZPLAN_DATA")
    return (pathlib.Path(data) if data else pathlib.Path(__file__).parents[3]) / "models"


def config_of_model(model: str, overrides: Json) -> dict[str, Any]:
    """The config.json keys of a model: a path (file or folder), or a name or alias in models/."""
    path = pathlib.Path(model)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        found = read_json(path)
    else:
        wanted, found = model.lower(), None
        for file in sorted(models_folder().glob("*.json")):
            known = read_json(file)
            names = [file.stem, known.get("name", ""), *known.get("aliases", [])]
            if wanted in (name.lower() for name in names):
                found = known
                break
        if found is None:
            raise ProbeError(
                f"--model {model}",
                "no such file, and no model of that name in models/",
                "name the path of a config.json",
            )
    if not isinstance(found, dict) or "model_type" not in found:
        raise ProbeError(f"--model {model}", "has no model_type", "name a Hugging Face config.json")
    return {key: value for key, value in {**found, **overrides}.items() if key not in NOT_OF_TRANSFORMERS}


def config_of_plan(model: Json) -> dict[str, Any]:
    """The model of a plan: by its name where models/ knows it, else by the shape that stands in the plan."""
    try:
        return config_of_model(model["name"], {})
    except ProbeError:
        shape = {key: value for key, value in model.items() if key not in (*NOT_OF_TRANSFORMERS, *ZPLANS_OWN)}
        return {**shape, "attention_bias": bool(model.get("o_bias", False)), "max_position_embeddings": 40960}


def from_plan(path: str) -> Job:
    """plan.json or its folder (`zplan plan`), or what `zplan simulate --json` printed.

    Of a plan the files beside it count: ds_config.json and launch.sh are what would run.
    """
    file = pathlib.Path(path)
    if file.is_dir():
        file = file / "plan.json"
    plan = read_json(file)
    schema = plan.get("schema") if isinstance(plan, dict) else None
    if schema == "zplan.plan/1":
        if plan.get("best") is None:
            raise ProbeError(str(file), "there is no plan in it: nothing fits", "see its what_would_fit")
        simulation = plan["best"]["simulation"]
    elif schema == "zplan.simulation/1":
        simulation = plan
    else:
        raise ProbeError(
            str(file), "is neither a plan nor a simulation of zplan", "name the plan.json that zplan wrote"
        )
    inputs, world = simulation["inputs"], simulation["world_size"]
    ds_config, ds_where = inputs["ds_config"], f"{file}:/inputs/ds_config"
    said, alloc_conf, threads = dict(inputs["workload"]), inputs.get("alloc_conf", ""), inputs.get("cpu_threads")
    trainer: dict[str, Any] = {}
    if schema == "zplan.plan/1":
        if (beside := file.parent / "ds_config.json").exists():
            ds_config, ds_where = read_json(beside), str(beside)
        if (launch := file.parent / "launch.sh").exists():
            text = launch.read_text(encoding="utf-8")
            said.update(workload_of_launch(text, str(launch)))
            alloc_conf, written = environment_of_launch(text)
            threads = written or threads
            trainer = trainer_values(text, str(launch))
    model = config_of_plan(inputs["model"])
    return Job(
        id=file.parent.name if schema == "zplan.plan/1" and file.parent.name else file.stem,
        model=inputs["model"]["name"],
        model_config=model,
        workload=workload_of(said, f"{file}:/inputs/workload"),
        ds_config=settled(ds_config, ds_where, model["hidden_size"], trainer, world),
        world_size=world,
        rank=simulation.get("rank", 0),
        alloc_conf=alloc_conf,
        capacity_bytes=inputs.get("capacity_limit_bytes"),
        cpu_threads=threads,
        interconnect=inputs.get("machine", {}).get("interconnect"),
        gpu=inputs.get("machine", {}).get("gpu"),
        versions=inputs.get("versions", {}),
    )


def record_in(path: str) -> tuple[Json, str]:
    """FILE, or FILE#ID of a file with a record a line."""
    name, _, wanted = path.partition("#")
    file = pathlib.Path(name)
    if file.suffix != ".jsonl":
        return read_json(file), name
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ProbeError(name, error.strerror or "cannot be read", "name a file that is there")
    records = [json.loads(line) for line in lines if line.strip()]
    chosen = [record for record in records if not wanted or record.get("id") == wanted]
    if len({record.get("id") for record in chosen}) != 1:
        raise ProbeError(path, f"{len(chosen)} records answer to it", "write FILE.jsonl#ID with the id of one")
    return min(chosen, key=lambda record: record.get("rank", 0)), path  # the ranks of one run have one id


def from_record(path: str) -> Job:
    """A run that was measured before: every input is in its record."""
    record, where = record_in(path)
    if not isinstance(record, dict) or record.get("schema") != "zplan.measurement/1":
        raise ProbeError(where, "is no measurement record", "name a file of zplan.measurement/1")
    overrides = record["workload"].get("model_overrides") or {}
    model = config_of_model(record["model"], overrides)
    versions = record.get("versions", {})
    return Job(
        id=record["id"],
        model=record["model"],
        model_config=model,
        model_overrides=overrides,
        workload=workload_of(record["workload"], f"{where}:/workload"),
        ds_config=settled(record["ds_config"], f"{where}:/ds_config", model["hidden_size"], {}, record["world_size"]),
        world_size=record["world_size"],
        rank=record.get("rank", 0),
        alloc_conf=record.get("alloc_conf") or "",
        capacity_bytes=record.get("capacity_limit_bytes"),
        cpu_threads=record.get("cpu_threads") or versions.get("threads"),
        interconnect=(record.get("machine") or {}).get("interconnect"),
        gpu=versions.get("gpu"),
        versions=versions,
        evaluate=any(phase["phase"] == "eval" for phase in record.get("phases", [])),
    )


def from_files(ds_config: str, model: str, said: Json, world_size: int) -> Job:
    """A ds_config.json, a model, and the rest from options; `said` has the keys of a record's workload."""
    config = config_of_model(model, {})
    ds = read_json(pathlib.Path(ds_config))
    bf16, fp16 = (bool((ds.get(name) or {}).get("enabled")) for name in ("bf16", "fp16"))
    workload = {"precision": "bf16" if bf16 else "fp16" if fp16 else "fp32", **said}
    if "optimizer" not in workload and "optimizer" not in ds:
        workload.update(optimizer="torch-adamw-fused", parameter_groups=2)  # the Trainer's own
    return Job(
        id=pathlib.Path(ds_config).stem,
        model=model,
        model_config=config,
        workload=workload_of(workload, "--seq-len" if "seq_len" not in workload else "options"),
        ds_config=settled(ds, ds_config, config["hidden_size"], {}, world_size),
        world_size=world_size,
    )


def in_world(job: Job, world_size: int) -> Job:
    """The same job among another number of ranks: the micro-batch stays, the whole batch follows."""
    if world_size == job.world_size:
        return job
    ds = dict(job.ds_config)
    if "train_batch_size" in ds:
        ds["train_batch_size"] = job.micro_batch * job.grad_accum * world_size
    return dataclasses.replace(job, ds_config=ds, world_size=world_size, rank=min(job.rank, world_size - 1))
