"""A compute node's own ledger: what it was asked, what it answered, how far each side has come.

Pure memory, with a hook: every change is one JSON line given to `write`, and `load` reads the lines
back after a restart. A node without a hook forgets when its process ends; the orchestrator then
sends again what it had. `snapshot` is the shortest list of lines that says the same.
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

#: Job types whose executions start again after a restart of the node; others fail.
RESTARTED_JOB_TYPES: Final = frozenset({"service", "daemon"})


class StoredExecution:
    """One execution as the node knows it."""

    __slots__ = ("id", "job", "kind", "spec", "state")

    def __init__(self, name: str, job: str, kind: str, state: int) -> None:
        self.id, self.job, self.kind, self.state = name, job, kind, state
        #: What to run; dropped when it is over.
        self.spec: Execution | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.state in TERMINAL


class NodeStore:
    """Executions, outgoing messages that are not acked yet, and both positions."""

    def __init__(
        self, write: Callable[[bytes], None] | None = None, remember: int = 100_000
    ) -> None:
        self._write = write
        self._remember = remember
        self.executions: dict[str, StoredExecution] = {}
        #: Ended executions, oldest first; the oldest are forgotten beyond the bound.
        self._ended: OrderedDict[str, None] = OrderedDict()
        self.seq = 0
        #: Messages that may not have been stored by the orchestrator, by their position.
        self.out: OrderedDict[int, WireObject] = OrderedDict()
        #: Last position of the orchestrator that was taken in.
        self.received = 0
        #: Last of our positions that the orchestrator has acked.
        self.acked = 0

    # --- changes --------------------------------------------------------------------------------

    def learn(self, held: StoredExecution) -> None:
        """Take in a new execution."""
        line: dict[str, Any] = {"k": "new", "id": held.id, "job": held.job, "kind": held.kind}
        line["state"] = held.state
        if held.spec is not None and held.kind in RESTARTED_JOB_TYPES:
            line["spec"] = held.spec
        self.seq += 1
        self.executions[held.id] = held
        self._log({**line, "seq": self.seq})
        self._sweep(held)

    def move(self, held: StoredExecution, state: int) -> None:
        """Change an execution's state."""
        self.seq += 1
        held.state = state
        self._log({"k": "state", "id": held.id, "state": state, "seq": self.seq})
        self._sweep(held)

    def say(self, payload: WireObject) -> int:
        """Keep a message until it is acked; return its position."""
        self.seq += 1
        self.out[self.seq] = payload
        line = {"k": "out", "seq": self.seq, "type": NAMES[type(payload)], "payload": payload}
        self._log(line)
        return self.seq

    def save_progress(self, received: int, acked: int) -> None:
        """Store how far both directions have come."""
        if (received, acked) != (self.received, self.acked):
            self.received, self.acked = received, acked
            self._drop_acked()
            self._log({"k": "at", "received": received, "acked": acked})

    def _drop_acked(self) -> None:
        while self.out and next(iter(self.out)) <= self.acked:
            self.out.popitem(last=False)

    def _sweep(self, held: StoredExecution) -> None:
        if not held.is_over:
            return
        held.spec = None
        self._ended[held.id] = None
        if len(self._ended) > self._remember:
            oldest, _ = self._ended.popitem(last=False)
            self.executions.pop(oldest, None)

    def _log(self, line: dict[str, Any]) -> None:
        if self._write is not None:
            self._write(dump(line))

    # --- restart --------------------------------------------------------------------------------

    def load(self, lines: Iterable[bytes]) -> int:
        """Read what was written; return how many lines could not be read (a torn last one, say)."""
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
            held = StoredExecution(line["id"], line["job"], line["kind"], int(line["state"]))
            if "spec" in line:
                held.spec = read_json(Execution, msgspec.json.encode(line["spec"]))
            self.executions[held.id] = held
            self._sweep(held)
        elif kind == "state":
            held = self.executions[line["id"]]
            held.state = int(line["state"])
            self._sweep(held)
        elif kind == "out":
            payload = read_payload(TYPES[line["type"]], msgspec.json.encode(line["payload"]))
            self.out[int(line["seq"])] = payload
        elif kind == "at":
            self.received, self.acked = int(line["received"]), int(line["acked"])
            self._drop_acked()

    def snapshot(self) -> list[bytes]:
        """Return the fewest lines that say what this store knows."""
        lines: list[bytes] = []
        copy = NodeStore(lines.append)
        for held in self.executions.values():
            copy.learn(held)
        copy.seq = 0
        for seq, payload in self.out.items():
            copy.seq = seq - 1
            copy.say(payload)
        lines.append(
            dump({"k": "at", "received": self.received, "acked": self.acked, "seq": self.seq})
        )
        return lines
