"""The table of the matrix: which pairs and cases there are, what each cell should say.

`docs/matrix.md` shows it; the matrix itself, when it runs, has to come to the same.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dragoman.dialects.registry import DIALECTS

Pair = tuple[str, str]
Cells = Mapping[str, str]

WORKERS: Final = tuple(DIALECTS)
CLIENTS: Final = tuple(name for name, each in DIALECTS.items() if each.has_clients)
PAIRS: Final = [(c, w) for c in CLIENTS for w in WORKERS]
#: Peers that are not ours, as clients and as workers, and the dialect that each speaks.
UPSTREAM: Final = {"norfab": "nfp", "zss-npm": "zss", "pynng": "memo"}
UPSTREAM_PAIRS: Final = [
    *((c, w) for c in UPSTREAM for w in (*WORKERS, *UPSTREAM)),
    *((c, w) for c in CLIENTS for w in UPSTREAM),
]
CASES: Final = (
    *("values", "1 MiB", "failure", "unknown task", "timeout", "200 at once", "cancel", "death"),
)
#: Clients whose dialect has no word for failure hear nothing instead.
SILENT: Final = frozenset({"memo", "pynng"})
NO_CANCEL: Final = frozenset({"memo", "pynng", "norfab"})
#: Workers that are told to stop and cannot say that they did, or cannot be told at all.
UNCONFIRMED: Final = frozenset({"memo", "ncl", *UPSTREAM})
#: A worker that knows memo01's text alone has no word for a failure of its own.
WORDLESS: Final = frozenset({"pynng"})
#: NATS carries a mebibyte at most, and base64 takes a third more.
HALF: Final = frozenset({"ncl"})


def expected(caller: str, worker: str) -> dict[str, str]:
    """Say what every case of a pair should come to."""
    cells = dict.fromkeys(CASES, "ok")
    if worker in HALF:
        cells["1 MiB"] = "512 KiB"
    if caller in SILENT:
        cells["failure"] = cells["unknown task"] = "silence"
    if worker in WORDLESS:
        cells["failure"] = cells["unknown task"] = "no word"
    cells["cancel"] = "unconfirmed" if worker in UNCONFIRMED else "confirmed"
    if caller in NO_CANCEL:
        cells["cancel"] = "no word"
    return cells


def cancels(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs whose client can cancel."""
    return [pair for pair in pairs if pair[0] not in NO_CANCEL]


def failing(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs whose worker can fail and say so."""
    return [pair for pair in pairs if pair[1] not in WORDLESS]


def table(found: Mapping[Pair, Cells], pairs: Iterable[Pair] = PAIRS) -> str:
    """Write the table; what was not tried is a dash."""
    lines = ["| client | worker | " + " | ".join(CASES) + " |", "|---" * (len(CASES) + 2) + "|"]
    for caller, worker in pairs:
        if (caller, worker) in found:
            cells = found[caller, worker]
            row = [cells.get(case, "-") for case in CASES]
            lines.append(f"| {caller} | {worker} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"
