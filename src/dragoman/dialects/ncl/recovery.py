"""Records -> what the orchestrator knew: its nodes, and the executions that were live.

The ledger is the truth, so nothing is stored beside it: a node's state is a `changed` record, an
execution is a `dispatched` record whose job has not moved on, and an accepted bid is an `accepted`
record. What of it reached the node before the broker went down is not in the records; such
executions are sent again when the node is back and the core claims them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from dragoman.core.effects import SendWork
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.models import NodeState
from dragoman.dialects.ncl.nodes import FORGOTTEN_RECORD, NODE_RECORD
from dragoman.dialects.ncl.wire import read_json
from dragoman.model.body import EMPTY, Body
from dragoman.model.names import JobId, PeerId, ServiceName, link_of
from dragoman.model.record import Kind, Record
from dragoman.model.terms import read_terms
from dragoman.model.value import value

LoadBody = Callable[[int], Body | None]

#: After one of these the attempt that was out is not out any more.
_OVER: Final = frozenset({Kind.REQUEUED, Kind.GATHERED, Kind.FORWARDED})


@value
class OpenDispatch:
    """A dispatch that had not come back: when it left, and the position of its accepted bid."""

    work: SendWork
    at: float
    accepted: int = 0


class Fold:
    """What the records say, as far as one link is concerned."""

    def __init__(self, link: str, records: Iterable[Record]) -> None:
        self.link = link
        self.last = 0
        #: Node -> position of its newest state.
        self._nodes: dict[str, int] = {}
        self._submitted: dict[str, Record] = {}
        #: (job, part) -> the request's position, when it was passed on to another service.
        self._forwarded: dict[tuple[str, int], int] = {}
        self._out: dict[tuple[str, int], tuple[Record, int]] = {}
        #: (job, part) -> the resources it is for, as a target names them.
        self._targets: dict[tuple[str, int], str] = {}
        for record in records:
            self._apply(record)
            self.last = record.seq

    def _apply(self, record: Record) -> None:
        kind, key = record.kind, (record.job, record.part)
        if kind == Kind.SUBMITTED:
            self._submitted[record.job] = record
        elif kind == Kind.MOVED:
            self._targets[key] = record.target
        elif kind == Kind.BOUND and record.target:
            for part, target in enumerate(record.target.split("\n")):
                self._targets[record.job, part] = target
        elif kind == Kind.DISPATCHED:
            if link_of(PeerId(record.peer)) == self.link:
                self._out[key] = (record, 0)
        elif kind == Kind.ACCEPTED and key in self._out:
            self._out[key] = (self._out[key][0], record.seq)
        elif kind in _OVER:
            self._out.pop(key, None)
            if kind == Kind.FORWARDED:
                self._forwarded[key] = record.seq
        elif kind == Kind.ENDED:
            self._ended(record.job)
        elif kind == Kind.CHANGED and link_of(PeerId(record.peer)) == self.link:
            self._changed(record)

    def _changed(self, record: Record) -> None:
        if record.detail.startswith(NODE_RECORD):
            self._nodes[record.detail.removeprefix(NODE_RECORD)] = record.seq
        elif record.detail.startswith(FORGOTTEN_RECORD):
            self._nodes.pop(record.detail.removeprefix(FORGOTTEN_RECORD), None)

    def _ended(self, job: str) -> None:
        self._submitted.pop(job, None)
        for key in [k for k in self._out if k[0] == job]:
            del self._out[key]
        for key in [k for k in self._targets if k[0] == job]:
            del self._targets[key]

    def nodes(self, load_body: LoadBody) -> Iterator[NodeState]:
        """Yield the nodes as last recorded. One that cannot be read is new again: harmless."""
        for seq in self._nodes.values():
            body = load_body(seq)
            try:
                yield read_json(NodeState, body.parts[0] if body else b"")
            except (MalformedMessage, IndexError):
                continue

    def dispatches(self, load_body: LoadBody) -> Iterator[OpenDispatch]:
        """Yield what was out, oldest first."""
        for key, (record, accepted) in self._out.items():
            submitted = self._submitted.get(record.job)
            if submitted is not None:
                body = load_body(self._forwarded.get(key, submitted.seq)) or EMPTY
                target = self._targets.get(key) or submitted.target or "any"
                yield OpenDispatch(_work(submitted, record, body, target), record.at, accepted)


def _work(submitted: Record, record: Record, body: Body, target: str) -> SendWork:
    """Write the order again that the core gave when it dispatched."""
    terms = read_terms(submitted.terms)
    until = record.at + terms.run_timeout if terms.run_timeout is not None else None
    if submitted.deadline_at:
        until = min(until or submitted.deadline_at, submitted.deadline_at)
    return SendWork(
        PeerId(record.peer),
        JobId(record.job),
        record.attempt,
        ServiceName(record.service),
        PeerId(submitted.client),
        body,
        record.task,
        until,
        record.seq,
        terms.needs,
        target,
        submitted.strict,
    )
