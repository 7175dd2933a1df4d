"""The other ranks: real ones that a launcher started, or torch's 'fake' process group, in which one process plays
rank r of N. Its collectives move no data, but every buffer of DeepSpeed and of the model is really allocated."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from typing import Mapping

from .errors import ProbeError
from .job import Job


@dataclass(frozen=True)
class Place:
    """This process among the ranks of the job. `kind`: fake or nccl, as in a record (gloo where there is no GPU)."""

    rank: int
    world_size: int
    local_rank: int
    kind: str
    local_ranks: int = 1  # real ones on this node


def place_of(job: Job, stand_in: bool, environment: Mapping[str, str], device: str) -> Place:
    """Which rank this process is. A launcher (torchrun, deepspeed, srun with torchrun) says it in the environment."""
    if stand_in:
        if not 0 <= job.rank < job.world_size:
            raise ProbeError("--rank", f"{job.rank} is not a rank of {job.world_size}", "ranks count from 0")
        return Place(job.rank, job.world_size, 0, "fake")
    kind = "nccl" if device == "cuda" else "gloo"
    started = int(environment.get("WORLD_SIZE", 1))
    if started != job.world_size:
        raise ProbeError(
            f"--world {job.world_size}",
            f"{started} process{'' if started == 1 else 'es'} started",
            f"start it with torchrun --nproc_per_node {job.world_size}, or play one rank with --stand-in",
        )
    local = int(environment.get("LOCAL_RANK", 0))
    return Place(
        int(environment.get("RANK", 0)), started, local, kind, int(environment.get("LOCAL_WORLD_SIZE", started))
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_of(job: Job, place: Place, device: str) -> dict[str, str | None]:
    """Variables to set (None: to remove) before torch is imported: torch and DeepSpeed read them once."""
    said: dict[str, str | None] = {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_RANK": str(place.local_rank),
        "PYTORCH_CUDA_ALLOC_CONF": job.alloc_conf or None,  # torch before 2.9, and the CUDA allocator until 2.12
        "PYTORCH_ALLOC_CONF": job.alloc_conf or None,
    }
    if "MASTER_ADDR" not in os.environ:
        said.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    if job.cpu_threads:
        said["OMP_NUM_THREADS"] = str(job.cpu_threads)
    if device == "cpu":
        said["DS_ACCELERATOR"] = "cpu"
    return said


def apply_environment(said: Mapping[str, str | None]) -> None:
    for name, value in said.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def let_rank_0_agree() -> None:
    """Stage 3 asks rank 0 whether it runs the same modules in the same order. Nobody answers a stand-in: it agrees.

    DeepSpeed's own functions (runtime/zero/utils.py) still run, for what they allocate.
    """
    from deepspeed.runtime.zero import utils

    asked, compared = utils.get_lst_from_rank0, getattr(utils, "assert_lst_len_same_as_other_ranks", None)

    def get_lst_from_rank0(values: list[int]) -> list[int]:
        asked(values)
        return list(values)

    def assert_lst_len_same_as_other_ranks(values: list[int]) -> None:
        with contextlib.suppress(RuntimeError):
            compared(values)

    utils.get_lst_from_rank0 = get_lst_from_rank0
    if compared:
        utils.assert_lst_len_same_as_other_ranks = assert_lst_len_same_as_other_ranks


def join(place: Place, device: str) -> None:
    """Makes the process group, and DeepSpeed's view of it."""
    import deepspeed
    import torch
    import torch.distributed as dist

    if place.kind == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group(backend="fake", rank=place.rank, world_size=place.world_size, store=FakeStore())
    elif place.kind == "nccl":
        dist.init_process_group(
            backend="nccl",
            rank=place.rank,
            world_size=place.world_size,
            device_id=torch.device("cuda", place.local_rank),
        )
    else:
        dist.init_process_group(backend="gloo", rank=place.rank, world_size=place.world_size)
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "cpu":  # an operator for shared memory that DeepSpeed would compile for minutes; gloo does without
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)
    if place.kind == "fake" and place.rank > 0:
        let_rank_0_agree()


def leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
