"""What nodes report of executions: bids, results, errors; news of them told from mere replays.

Everything is decided by an execution's id and state, nothing by sequence numbers. What is wrong
with a report is put on record and never refused on the wire.
"""

from typing import Final

from dragoman.core.events import Noted, ReplyKind
from dragoman.dialects.ncl.body_codec import NAME
from dragoman.dialects.ncl.dispatcher import Dispatcher, Told
from dragoman.dialects.ncl.executions import Executions, LiveExecution, outcome
from dragoman.dialects.ncl.messages import BidResult, ComputeError, RunResult
from dragoman.dialects.ncl.models import NEW, WireObject
from dragoman.dialects.ncl.nodes import Node
from dragoman.model.names import PeerId
from dragoman.model.record import Kind

_RESULTS: Final = (BidResult, RunResult, ComputeError)


class ResultHandler:
    """Takes in what nodes report."""

    def __init__(self, executions: Executions, dispatcher: Dispatcher) -> None:
        self._executions = executions
        self._dispatcher = dispatcher

    def take(self, node: Node, payload: WireObject) -> Told:
        """Say to the core what a message of a node's data plane means."""
        if not isinstance(payload, _RESULTS):
            words = f"{type(payload).__name__} is no message of a compute node"
            return [rejected(node.peer, words)]
        execution = self._executions.live.get(payload.ExecutionID)
        if execution is None or execution.node != node.id:
            return self._late(node, payload)
        if isinstance(payload, BidResult) and payload.Accepted:
            return self._bid_offered(node, execution)
        state, body, fault = outcome(payload)
        self._executions.end(execution, state)
        return [execution.reply(ReplyKind.FINAL, body, fault)]

    def _bid_offered(self, node: Node, execution: LiveExecution) -> Told:
        """Take a bid, and take it again if it is offered again: the node may have missed that."""
        is_news = execution.state == NEW
        self._dispatcher.accept(node, execution)
        return [execution.reply(ReplyKind.ACCEPTED)] if is_news else []

    def _late(self, node: Node, payload: BidResult | RunResult | ComputeError) -> Told:
        """Tell news about a stopped execution (the core records it) from a mere replay."""
        name = payload.ExecutionID
        if not self._executions.is_known(name, node.id):
            words = f"{type(payload).__name__} about execution {name!r}, which {node.id} never had"
            return [Noted(Kind.LATE, node.peer, words, outcome(payload)[1], dialect=NAME)]
        state, body, fault = outcome(payload)
        ended = self._executions.late(name, node.id, state)
        if ended is None or (isinstance(payload, BidResult)):
            return []
        late = LiveExecution(ended.job, ended.peer, ended.attempt)
        return [late.reply(ReplyKind.FINAL, body, fault)]


def rejected(peer: PeerId, words: str) -> Noted:
    """Put on record what is wrong with a node's message."""
    return Noted(Kind.REJECTED, peer, words, dialect=NAME)
