"""Records -> what the orchestrator knew: its nodes, and the executions that were live.

The ledger is the truth, so nothing is stored beside it: a node's state is a `changed` record, an
execution is a `dispatched` record whose job has not moved on, and an accepted bid is an `accepted`
record. What of it reached the node before the broker went down is not in the records; such
executions are sent again when the node is back and the core claims them.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from dragoman.core.effects import SendWork
from dragoman.dialects.base import MalformedMessage, Wardrobe, redress_call
from dragoman.dialects.ncl.broker_side import BrokerSide
from dragoman.dialects.ncl.dataplane import Item
from dragoman.dialects.ncl.dress import NAME
from dragoman.dialects.ncl.envelope import BAD_JSON
from dragoman.dialects.ncl.executions import Tracked, ask_for_bid
from dragoman.dialects.ncl.messages import BidAccepted
from dragoman.dialects.ncl.models import BID_ACCEPTED, RUN, NodeState
from dragoman.dialects.ncl.nodes import NODE_RECORD, Node
from dragoman.dialects.ncl.wire import read_json
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Unmappable
from dragoman.model.names import JobId, PeerId, ServiceName, link_of
from dragoman.model.record import Kind, Record
from dragoman.model.terms import read_terms

LoadBody = Callable[[int], Body | None]

#: After one of these the attempt that was out is not out any more.
_OVER: Final = frozenset({Kind.REQUEUED, Kind.GATHERED, Kind.FORWARDED})


class _Fold:
    """What the records say, as far as this link is concerned."""

    def __init__(self, link: str) -> None:
        self.link = link
        self.nodes: dict[str, int] = {}
        self.submitted: dict[str, Record] = {}
        #: (job, part) -> the request's position, when it was passed on to another service.
        self.forwarded: dict[tuple[str, int], int] = {}
        self.out: dict[tuple[str, int], tuple[Record, int]] = {}

    def apply(self, record: Record) -> None:
        kind, key = record.kind, (record.job, record.part)
        if kind == Kind.SUBMITTED:
            self.submitted[record.job] = record
        elif kind == Kind.DISPATCHED:
            if link_of(PeerId(record.peer)) == self.link:
                self.out[key] = (record, 0)
        elif kind == Kind.ACCEPTED and key in self.out:
            self.out[key] = (self.out[key][0], record.seq)
        elif kind in _OVER:
            self.out.pop(key, None)
            if kind == Kind.FORWARDED:
                self.forwarded[key] = record.seq
        elif kind == Kind.ENDED:
            self._ended(record.job)
        elif kind == Kind.CHANGED and self._is_node(record):
            self.nodes[record.detail.removeprefix(NODE_RECORD)] = record.seq

    def _is_node(self, record: Record) -> bool:
        is_ours = link_of(PeerId(record.peer)) == self.link
        return is_ours and record.detail.startswith(NODE_RECORD)

    def _ended(self, job: str) -> None:
        self.submitted.pop(job, None)
        for key in [k for k in self.out if k[0] == job]:
            del self.out[key]


def restore(
    side: BrokerSide,
    records: Iterable[Record],
    load_body: LoadBody,
    wardrobe: Wardrobe,
    now: float,
) -> None:
    """Give a new side what the records say that the last one knew."""
    fold = _Fold(side.link)
    last = 0
    for record in records:
        fold.apply(record)
        last = record.seq
    side.dispatcher.newest = max(side.dispatcher.newest, last)
    for seq in fold.nodes.values():
        _restore_node(side, load_body(seq), now)
    for key, (record, accepted) in fold.out.items():
        submitted = fold.submitted.get(record.job)
        if submitted is not None:
            body = load_body(fold.forwarded.get(key, submitted.seq)) or EMPTY
            _restore_execution(side, record, accepted, _work(submitted, record, body), wardrobe)


def _restore_node(side: BrokerSide, body: Body | None, now: float) -> None:
    """Know a node again. A record that cannot be read makes it a new node, which is harmless."""
    try:
        state: NodeState = read_json(NodeState, body.parts[0] if body else b"")
    except (MalformedMessage, IndexError):
        return
    node = Node(side.link, state.Info, side.settings)
    node.restore(state)
    node.disconnected_at = now
    side.nodes[node.id] = node


def _work(submitted: Record, record: Record, body: Body) -> SendWork:
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
        submitted.target,
    )


def _restore_execution(
    side: BrokerSide, record: Record, accepted: int, work: SendWork, wardrobe: Wardrobe
) -> None:
    try:
        params = msgspec.json.decode(
            redress_call(wardrobe, work.body, NAME).parts[0], type=dict[str, object]
        )
    except (Unmappable, IndexError, *BAD_JSON):
        return
    execution = Tracked(work.job, work.worker, work.attempt, work.needs)
    if execution.node not in side.nodes:
        return
    ask = ask_for_bid(work, params, side.settings, record.at)
    execution.sent.append(Item(record.seq, ask))
    if accepted:
        execution.sent.append(Item(accepted, BidAccepted(None, execution.id)))
    if accepted or ask.Execution.DesiredState.StateType == RUN:
        execution.state = BID_ACCEPTED
    execution.is_unsure = True
    side.executions.add(execution)
