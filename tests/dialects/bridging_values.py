"""Which values cross between dialects, found by sending each of them over every pair.

The run uses the code of real peers and of the broker: the SDK's treatment of results, and the body
codecs of client, broker and worker. `python -m tests.dialects.bridging_values` prints the page
`docs/bridging-values.md`; a test compares the two.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from dragoman.dialects.base import convert_answer, convert_call
from dragoman.dialects.registry import DIALECTS, body_codecs
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.sdk.task_results import TaskFailed, answer_of

CODECS: Final = body_codecs()
CLIENTS: Final = tuple(name for name, each in DIALECTS.items() if each.has_clients)
WORKERS: Final = tuple(DIALECTS)
#: Client and worker.
Pair = tuple[str, str]
PAIRS: Final[tuple[Pair, ...]] = tuple((c, w) for c in CLIENTS for w in WORKERS)
EQUAL: Final = "equal"


class Colour(Enum):
    """A class of a user's own."""

    RED = "red"


@dataclass
class Point:
    """A class of a user's own."""

    x: int


def _deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


#: Written as in Python; the page shows these texts.
VALUES: Final[dict[str, Any]] = {
    "None": None,
    "True": True,
    "0": 0,
    "-7": -7,
    "2**31 - 1": 2**31 - 1,
    "2**31": 2**31,
    "-(2**31) - 1": -(2**31) - 1,
    "2**53": 2**53,
    "2**53 + 1": 2**53 + 1,
    "2**63": 2**63,
    "2**64": 2**64,
    "-(2**63) - 1": -(2**63) - 1,
    "2**100": 2**100,
    "3.25": 3.25,
    "1.0": 1.0,
    "-0.0": -0.0,
    "1e308": 1e308,
    "5e-324": 5e-324,
    "nan": float("nan"),
    "inf": float("inf"),
    "''": "",
    "'naïve ☃'": "naïve ☃",
    "'\\x00'": "\x00",
    "'\\ud800'": "\ud800",
    "b''": b"",
    "b'\\x00\\xff'": b"\x00\xff",
    "b'7'": b"7",
    "[b'7']": [b"7"],
    "bytearray(b'7')": bytearray(b"7"),
    "[bytearray(b'7')]": [bytearray(b"7")],
    "[]": [],
    "[1, [2]]": [1, [2]],
    "(1, 2)": (1, 2),
    "[(1, 2)]": [(1, 2)],
    "{1}": {1},
    "frozenset({1})": frozenset({1}),
    "{}": {},
    "{'b': 1, 'a': 2}": {"b": 1, "a": 2},
    "{'aa': 1, 'b': 2}": {"aa": 1, "b": 2},
    "{'': 1}": {"": 1},
    "{1: 2}": {1: 2},
    "{1: 'a', '1': 'b'}": {1: "a", "1": "b"},
    "{None: 1}": {None: 1},
    "{b'k': 1}": {b"k": 1},
    "{(1, 2): 3}": {(1, 2): 3},
    "{'args': [], 'kwargs': {}}": {"args": [], "kwargs": {}},
    "{'result': 1}": {"result": 1},
    "{'$bytes': 'Nw=='}": {"$bytes": "Nw=="},
    "{'fault': 'denied', 'message': ''}": {"fault": "denied", "message": ""},
    "{'dragoman-fault': {}}": {"dragoman-fault": {}},
    "datetime(2026, 1, 2, tzinfo=UTC)": datetime(2026, 1, 2, tzinfo=UTC),
    "date(2026, 1, 2)": date(2026, 1, 2),
    "Decimal('1.50')": Decimal("1.50"),
    "UUID(int=7)": UUID(int=7),
    "Colour.RED": Colour.RED,
    "Point(7)": Point(7),
    "1j": 1j,
    "object()": object(),
    "90 lists in each other": _deep(90),
    "300 lists in each other": _deep(300),
}


def as_argument(value: Any, pair: Pair) -> str:
    """Send a value as the only argument of a task; return what becomes of it."""
    client, worker = pair

    def send() -> Any:
        body = CODECS[client].write_call(Call("task", (value,)))
        call = CODECS[worker].read_call(convert_call(CODECS, body, worker))
        assert call.task == "task"
        (received,) = call.args if call.raw is None else (call.raw,)
        return received

    return _outcome(value, send)


def as_result(value: Any, pair: Pair) -> str:
    """Return a value from a task; return what becomes of it."""
    client, worker = pair

    def send() -> Any:
        body = CODECS[worker].write_answer(answer_of(value, None))
        answer = CODECS[client].read_answer(convert_answer(CODECS, body, client))
        if answer.fault is not None:
            return answer.fault
        return _received(answer)

    return _outcome(value, send)


def _received(answer: Answer) -> Any:
    return answer.value if answer.raw is None else answer.raw


def _outcome(value: Any, send: Callable[[], Any]) -> str:
    try:
        received = send()
    except (Unmappable, TaskFailed) as error:
        return f"refused: {_reason(str(error))}"
    if _text(received) == _text(value):
        return EQUAL
    return f"changed to `{_text(received)}`"


def _reason(text: str) -> str:
    """Shorten a reason, and leave out what differs from run to run."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = text.replace("__main__.", "").replace(f"{__spec__.name}.", "")
    return text if len(text) < 90 else text[:87] + "..."


def _text(value: Any) -> str:
    """Write a value with its types and the order of its keys."""
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


# --- the page -----------------------------------------------------------------------------------


def groups(send: Callable[[Any, Pair], str], value: Any) -> dict[str, list[Pair]]:
    """Return the pairs of each outcome."""
    found: dict[str, list[Pair]] = {}
    for pair in PAIRS:
        found.setdefault(send(value, pair), []).append(pair)
    return found


def describe(pairs: list[Pair]) -> str:
    """Describe a set of pairs by the dialects that they have in common."""
    if len(pairs) == len(PAIRS):
        return "all pairs"
    every = set(pairs)
    clients = [c for c in CLIENTS if {p for p in PAIRS if p[0] == c} <= every]
    workers = [w for w in WORKERS if {p for p in PAIRS if p[1] == w} <= every]
    rest = [p for p in pairs if p[0] not in clients and p[1] not in workers]
    parts = [f"{', '.join(clients)} clients"] if clients else []
    parts += [f"{', '.join(workers)} workers"] if workers else []
    return "; ".join([*parts, *_by_client(rest)])


def _by_client(pairs: list[Pair]) -> list[str]:
    """Write the remaining pairs as `client > workers`, alike ones together."""
    found: dict[str, list[str]] = {}
    for client in dict.fromkeys(c for c, _ in pairs):
        workers = ", ".join(w for c, w in pairs if c == client)
        found.setdefault(workers, []).append(client)
    return [f"{', '.join(clients)} > {workers}" for workers, clients in found.items()]


def cell(send: Callable[[Any, Pair], str], value: Any) -> str:
    """Write a cell of the table."""
    found = groups(send, value)
    if set(found) == {EQUAL}:
        return EQUAL
    order = sorted(found, key=lambda outcome: outcome != EQUAL)
    lines = [f"{outcome} ({describe(found[outcome])})" for outcome in order]
    return "<br>".join(line.replace("|", "\\|").replace("\n", " ") for line in lines)


HEAD: Final = """# Which values cross between dialects

This page is generated from a run: each value is sent as an argument and as a result between every
client and every worker, {calls:,} times in all.
`python -m tests.dialects.bridging_values > docs/bridging-values.md` writes it, and
[`tests/dialects/test_bridging_values.py`](../tests/dialects/test_bridging_values.py) compares it
with a new run. [Bridging](bridging.md) gives the reasons.

*Equal* means the same value, types and order of keys. *Refused* means that the caller gets the
fault `unmappable` or `task_failed` with this reason, and no changed value.
`nfp, http > dcp` means clients of nfp and http with workers of dcp.

| value | as an argument | as a result |
| --- | --- | --- |
"""


def page() -> str:
    """Write the page."""
    rows = [
        f"| `{name}` | {cell(as_argument, value)} | {cell(as_result, value)} |"
        for name, value in VALUES.items()
    ]
    return HEAD.format(calls=2 * len(PAIRS) * len(VALUES)) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
