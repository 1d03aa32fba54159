"""The capacity of this machine, as far as this process may use it."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from dragoman.model.capacity import Capacity

_CGROUP: Final = Path("/sys/fs/cgroup")


def machine_capacity(cgroup: Path = _CGROUP) -> Capacity:
    """Return CPUs, memory and free disk: the machine's, or the container's where it has less."""
    cpus, memory = float(_cpus()), _memory()
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cpus = min(cpus, int(quota) / int(period))
    limit = _read(cgroup / "memory.max")
    if limit.isdigit():
        memory = min(memory, int(limit))
    return Capacity(round(cpus, 2), memory, shutil.disk_usage(tempfile.gettempdir()).free)


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
