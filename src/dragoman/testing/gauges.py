"""Measures a live broker from outside: metrics, memory, file descriptors."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.request import urlopen

_LINE: Final = re.compile(r'^(\w+?)(?:_total)?(?:\{\w+="([^"]*)"[^}]*\})? ([-+.\deE]+)$')
_PATIENCE: Final = 30.0

#: Values by name and first label; the label may be empty.
Metrics = dict[tuple[str, str], float]


def read_metrics(endpoint: str) -> Metrics:
    """Read `/metrics` of a broker's HTTP endpoint."""
    # The endpoint is that of a broker under test.
    with urlopen(f"{endpoint}/metrics", timeout=_PATIENCE) as answer:  # nosec B310
        return parse_metrics(answer.read().decode())


def parse_metrics(text: str) -> Metrics:
    """Parse the Prometheus text format."""
    found = (_LINE.match(line) for line in text.splitlines())
    return {(m[1], m[2] or ""): float(m[3]) for m in found if m}


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0 if unavailable."""
    with suppress(OSError, ValueError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def open_files(pid: int) -> int:
    """Return the number of open descriptors of a process; 0 if unavailable."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0
