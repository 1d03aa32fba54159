"""The table of the matrix: which pairs and cases there are, what each cell should say.

`docs/matrix.md` shows it; the matrix itself, when it runs, has to come to the same.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.sdk.kits import DIALECTS

WORKERS: Final = tuple(DIALECTS)
CLIENTS: Final = tuple(d for d in DIALECTS if d != "ncl")
PAIRS: Final = [(c, w) for c in CLIENTS for w in WORKERS]
CASES: Final = (
    *("values", "1 MiB", "failure", "unknown task", "timeout", "200 at once", "cancel", "death"),
)
#: Clients whose dialect has no word for failure hear nothing instead.
SILENT: Final = frozenset({"memo"})
NO_CANCEL: Final = frozenset({"memo"})
#: Workers that are told to stop and cannot say that they did, or cannot be told at all.
UNCONFIRMED: Final = frozenset({"memo", "ncl"})
#: NATS carries a mebibyte at most, and base64 takes a third more.
HALF: Final = frozenset({"ncl"})

Cells = Mapping[str, str]


def expected(caller: str, worker: str) -> dict[str, str]:
    """Say what every case of a pair should come to."""
    cells = dict.fromkeys(CASES, "ok")
    if worker in HALF:
        cells["1 MiB"] = "512 KiB"
    if caller in SILENT:
        cells["failure"] = cells["unknown task"] = "silence"
    cells["cancel"] = "unconfirmed" if worker in UNCONFIRMED else "confirmed"
    if caller in NO_CANCEL:
        cells["cancel"] = "-"
    return cells


def table(found: Mapping[tuple[str, str], Cells]) -> str:
    """Write the table; what was not tried is a dash."""
    lines = ["| client | worker | " + " | ".join(CASES) + " |", "|---" * (len(CASES) + 2) + "|"]
    for caller, worker in PAIRS:
        if (caller, worker) in found:
            cells = found[caller, worker]
            row = [cells.get(case, "-") for case in CASES]
            lines.append(f"| {caller} | {worker} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"
