"""Restores the orchestrator's nodes and live executions from records.

The ledger is the only store. A node's state is a `changed` record. An execution is a `dispatched`
record without a later one that ends the attempt. An accepted bid is an `accepted` record. The
records do not say what reached a node before the broker stopped. Such executions are sent again
when the node returns and the core claims them.
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

#: Records that end an open dispatch.
_ENDS_DISPATCH: Final = frozenset({Kind.REQUEUED, Kind.GATHERED, Kind.FORWARDED})


@value
class OpenDispatch:
    """A dispatch without a result: its time, and the position of its accepted bid."""

    work: SendWork
    at: float
    accepted: int = 0


class Fold:
    """The state of one link, folded from the records."""

    def __init__(self, link: str, records: Iterable[Record]) -> None:
        self.link = link
        self.last = 0
        #: Node -> position of its newest state.
        self._nodes: dict[str, int] = {}
        self._submitted: dict[str, Record] = {}
        #: (job, part) -> position of the request, if it was forwarded to another service.
        self._forwarded: dict[tuple[str, int], int] = {}
        self._open: dict[tuple[str, int], tuple[Record, int]] = {}
        #: (job, part) -> its resources, in target syntax.
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
                self._open[key] = (record, 0)
        elif kind == Kind.ACCEPTED and key in self._open:
            self._open[key] = (self._open[key][0], record.seq)
        elif kind in _ENDS_DISPATCH:
            self._open.pop(key, None)
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
        for key in [k for k in self._open if k[0] == job]:
            del self._open[key]
        for key in [k for k in self._targets if k[0] == job]:
            del self._targets[key]

    def nodes(self, load_body: LoadBody) -> Iterator[NodeState]:
        """Yield the nodes as last recorded. An unreadable one is skipped: it joins as new."""
        for seq in self._nodes.values():
            body = load_body(seq)
            try:
                yield read_json(NodeState, body.parts[0] if body else b"")
            except (MalformedMessage, IndexError):
                continue

    def dispatches(self, load_body: LoadBody) -> Iterator[OpenDispatch]:
        """Yield open dispatches, oldest first."""
        for key, (record, accepted) in self._open.items():
            submitted = self._submitted.get(record.job)
            if submitted is not None:
                body = load_body(self._forwarded.get(key, submitted.seq)) or EMPTY
                target = self._targets.get(key) or submitted.target or "any"
                yield OpenDispatch(_work(submitted, record, body, target), record.at, accepted)


def _work(submitted: Record, record: Record, body: Body, target: str) -> SendWork:
    """Rebuild the effect that the core returned when it dispatched."""
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
