"""How much memory the broker may use: the machine's, or less in a control group (a container)."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from dragoman.core.limits import Limits

#: The limit of our control group: version 2, version 1.
_GROUPS: Final = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
_SHARE: Final = 8
_LEAST: Final = 16 * 1024 * 1024


def usable_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _GROUPS:
        try:
            text = (root / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():  # version 2 says `max` without a limit
            found.append(int(text))
    return min(found)


def with_memory(limits: Limits, memory: int) -> Limits:
    """Return limits with a bound for queued bodies: the one that is set, or an eighth of memory."""
    if limits.queued_memory:
        return limits
    bounded: Limits = replace(limits, queued_memory=max(memory // _SHARE, _LEAST))
    return bounded
