"""What this process uses, at the end of a phase and at most within it: torch's allocators, the driver, /proc."""

from __future__ import annotations

import os
import pathlib
import re
import time
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Figures:
    """Bytes at the end of a phase; `device` holds torch's own names, peaks are within the phase."""

    device: dict[str, int]
    rss: int
    rss_peak: int
    pinned: dict[str, int] = field(default_factory=dict)
    device_used: int | None = None  # by the driver: all processes of the card
    seconds: float = 0.0  # since the probe started
    at_us: int = 0  # as the allocator's history counts


class Meter(Protocol):
    """A GPU, or a machine without one."""

    def read(self) -> Figures: ...
    def synchronize(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...


def resident() -> tuple[int, int]:
    """Resident bytes of this process now and at most, from /proc/self/status (kB there are KiB)."""
    text = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    said = dict(re.findall(r"^(\w+):\s+(\d+) kB", text, re.M))
    now, most = (int(said[key]) * 1024 for key in ("VmRSS", "VmHWM"))
    return now, most


def driver_version() -> str | None:
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None


def host_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def host_cores() -> int:
    """Cores of this machine, two threads each where it has them."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        pairs = set(re.findall(r"^physical id\s*:\s*(\d+)$.*?^core id\s*:\s*(\d+)$", text, re.M | re.S))
    except OSError:
        pairs = set()
    return len(pairs) or os.cpu_count() or 1


class CudaMeter:
    """One GPU. Reading it ends a phase: it waits for the GPU and starts the peaks anew."""

    NAMES = {
        "allocated": "allocated_bytes.all.current",
        "allocated_peak": "allocated_bytes.all.peak",
        "reserved": "reserved_bytes.all.current",
        "reserved_peak": "reserved_bytes.all.peak",
        "active": "active_bytes.all.current",
        "active_peak": "active_bytes.all.peak",
        "inactive_split": "inactive_split_bytes.all.current",
        "retries": "num_alloc_retries",
    }

    def __init__(self, index: int, capacity_bytes: int | None) -> None:
        import torch

        self.torch, self.index, self.began = torch, index, time.monotonic()
        torch.cuda.set_device(index)
        torch.zeros(1, device="cuda")  # the context
        if capacity_bytes is not None:
            total = torch.cuda.get_device_properties(index).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, capacity_bytes / total))
        try:  # the driver's count needs nvidia-ml-py
            import pynvml

            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(self._physical_index())
        except Exception:
            self.nvml = None

    def _physical_index(self) -> int:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        chosen = visible.split(",")[self.index] if visible else str(self.index)
        return int(chosen)  # names such as GPU-... are left without the driver's count

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def read(self) -> Figures:
        cuda = self.torch.cuda
        cuda.synchronize()
        said = cuda.memory_stats()
        try:
            pinned = {
                key: value
                for key, value in cuda.host_memory_stats().items()
                if key.startswith(("allocated_bytes", "active_bytes"))
            }
        except (AttributeError, RuntimeError):  # came with torch 2.6
            pinned = {}
        used = None if self.nvml is None else int(self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used)
        now, most = resident()
        figures = Figures(
            {name: int(said.get(key, 0)) for name, key in self.NAMES.items()},
            now,
            most,
            pinned,
            used,
            time.monotonic() - self.began,
            time.time_ns() // 1000,
        )
        cuda.reset_peak_memory_stats()
        return figures

    def facts(self) -> dict[str, Any]:
        said: dict[str, Any] = {"gpu": self.torch.cuda.get_device_name(self.index)}
        if driver := driver_version():
            said["driver"] = driver
        return said


class HostMeter:
    """No GPU: torch has no allocator to ask on the CPU, so the device's figures are 0 and mean nothing."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def synchronize(self) -> None:
        pass

    def read(self) -> Figures:
        now, most = resident()
        return Figures(
            dict.fromkeys(CudaMeter.NAMES, 0),
            now,
            most,
            seconds=time.monotonic() - self.began,
            at_us=time.time_ns() // 1000,
        )

    def facts(self) -> dict[str, Any]:
        return {"device": "cpu"}
