"""A compute node's own ledger: executions, unacked messages, positions of both directions.

Changes are kept in memory. Each is also one JSON line passed to `write`; `load` reads the lines
back after a restart. A node without `write` loses its state when its process ends, and the
orchestrator sends its executions again. `snapshot` returns the shortest equivalent list of lines.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.envelope import BAD_JSON, dump
from dragoman.dialects.ncl.messages import NAMES, TYPES
from dragoman.dialects.ncl.models import TERMINAL, Execution, WireObject
from dragoman.dialects.ncl.wire import read_json, read_payload

#: Job types whose executions are restarted after a restart of the node. Others fail.
RESTARTED_JOB_TYPES: Final = frozenset({"service", "daemon"})


class StoredExecution:
    """One execution of the node."""

    __slots__ = ("id", "job", "kind", "spec", "state")

    def __init__(self, name: str, job: str, kind: str, state: int) -> None:
        self.id, self.job, self.kind, self.state = name, job, kind, state
        #: What to run; dropped when it ends.
        self.spec: Execution | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in TERMINAL


class NodeStore:
    """Executions, unacked outgoing messages, and the positions of both directions."""

    def __init__(
        self, write: Callable[[bytes], None] | None = None, remember: int = 100_000
    ) -> None:
        self._write = write
        self._remember = remember
        self.executions: dict[str, StoredExecution] = {}
        #: Ended executions, oldest first, bounded.
        self._ended: OrderedDict[str, None] = OrderedDict()
        self.seq = 0
        #: Unacked messages by position.
        self.out: OrderedDict[int, WireObject] = OrderedDict()
        #: Last position received from the orchestrator.
        self.received = 0
        #: Last own position that the orchestrator has acked.
        self.acked = 0

    # --- changes --------------------------------------------------------------------------------

    def add(self, stored: StoredExecution) -> None:
        """Add a new execution."""
        line: dict[str, object] = {
            "k": "new",
            "id": stored.id,
            "job": stored.job,
            "kind": stored.kind,
        }
        line["state"] = stored.state
        if stored.spec is not None and stored.kind in RESTARTED_JOB_TYPES:
            line["spec"] = stored.spec
        self.seq += 1
        self.executions[stored.id] = stored
        self._write_line({**line, "seq": self.seq})
        self._trim_ended(stored)

    def set_state(self, stored: StoredExecution, state: int) -> None:
        """Change an execution's state."""
        self.seq += 1
        stored.state = state
        self._write_line({"k": "state", "id": stored.id, "state": state, "seq": self.seq})
        self._trim_ended(stored)

    def add_message(self, payload: WireObject) -> int:
        """Keep a message until it is acked; return its position."""
        self.seq += 1
        self.out[self.seq] = payload
        line = {"k": "out", "seq": self.seq, "type": NAMES[type(payload)], "payload": payload}
        self._write_line(line)
        return self.seq

    def save_progress(self, received: int, acked: int) -> None:
        """Store the positions of both directions."""
        if (received, acked) != (self.received, self.acked):
            self.received, self.acked = received, acked
            self._drop_acked()
            self._write_line({"k": "at", "received": received, "acked": acked})

    def _drop_acked(self) -> None:
        while self.out and next(iter(self.out)) <= self.acked:
            self.out.popitem(last=False)

    def _trim_ended(self, stored: StoredExecution) -> None:
        if not stored.is_over:
            return
        stored.spec = None
        self._ended[stored.id] = None
        if len(self._ended) > self._remember:
            oldest, _ = self._ended.popitem(last=False)
            self.executions.pop(oldest, None)

    def _write_line(self, line: dict[str, object]) -> None:
        if self._write is not None:
            self._write(dump(line))

    # --- restart --------------------------------------------------------------------------------

    def load(self, lines: Iterable[bytes]) -> int:
        """Read stored lines; return how many could not be read (a torn last line, say)."""
        bad, writer = 0, self._write
        self._write = None
        for line in lines:
            try:
                self._apply(msgspec.json.decode(line))
            except (*BAD_JSON, MalformedMessage, KeyError, TypeError, AttributeError):
                bad += 1
        self._write = writer
        return bad

    def _apply(self, line: dict[str, Any]) -> None:
        kind = line["k"]
        self.seq = max(self.seq, int(line.get("seq", 0)))
        if kind == "new":
            stored = StoredExecution(line["id"], line["job"], line["kind"], int(line["state"]))
            if "spec" in line:
                stored.spec = read_json(Execution, msgspec.json.encode(line["spec"]))
            self.executions[stored.id] = stored
            self._trim_ended(stored)
        elif kind == "state":
            stored = self.executions[line["id"]]
            stored.state = int(line["state"])
            self._trim_ended(stored)
        elif kind == "out":
            payload = read_payload(TYPES[line["type"]], msgspec.json.encode(line["payload"]))
            self.out[int(line["seq"])] = payload
        elif kind == "at":
            self.received, self.acked = int(line["received"]), int(line["acked"])
            self._drop_acked()

    def snapshot(self) -> list[bytes]:
        """Return the fewest lines that hold the same state."""
        lines: list[bytes] = []
        copy = NodeStore(lines.append)
        for stored in self.executions.values():
            copy.add(stored)
        copy.seq = 0
        for seq, payload in self.out.items():
            copy.seq = seq - 1
            copy.add_message(payload)
        lines.append(
            dump({"k": "at", "received": self.received, "acked": self.acked, "seq": self.seq})
        )
        return lines
