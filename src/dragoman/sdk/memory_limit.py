"""The memory limit of a job in a process: the kernel refuses what it allocates beyond it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def limited_memory(extra: int | None) -> Iterator[None]:
    """Let this process allocate `extra` bytes more than it has; None: no limit.

    The limit counts private memory (RLIMIT_DATA), not mapped files and libraries.
    """
    if extra is None:
        yield
        return
    old, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = data_in_use() + extra
    resource.setrlimit(resource.RLIMIT_DATA, (_lower(_lower(wanted, old), hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (old, hard))


def _lower(first: int, second: int) -> int:
    return first if second == resource.RLIM_INFINITY else min(first, second)


def data_in_use() -> int:
    """Return the bytes of private memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmData")
