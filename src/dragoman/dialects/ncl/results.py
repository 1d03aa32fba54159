"""Handles bids, results and errors of nodes, and distinguishes new messages from replays.

An execution's id and state decide, never a sequence number. Invalid messages are recorded and never
refused on the wire.
"""

from typing import Final

from dragoman.core.events import Noted, ReplyKind
from dragoman.dialects.ncl.body_codec import NAME
from dragoman.dialects.ncl.dispatcher import Dispatcher, Outputs
from dragoman.dialects.ncl.executions import Executions, LiveExecution, outcome
from dragoman.dialects.ncl.messages import BidResult, ComputeError, RunResult
from dragoman.dialects.ncl.models import NEW, WireObject
from dragoman.dialects.ncl.nodes import Node
from dragoman.model.names import PeerId
from dragoman.model.record import Kind

_RESULTS: Final = (BidResult, RunResult, ComputeError)


class ResultHandler:
    """Turns the data messages of nodes into events."""

    def __init__(self, executions: Executions, dispatcher: Dispatcher) -> None:
        self._executions = executions
        self._dispatcher = dispatcher

    def take(self, node: Node, payload: WireObject) -> Outputs:
        """Return the events and messages that a data message causes."""
        if not isinstance(payload, _RESULTS):
            reason = f"{type(payload).__name__} is not a data message of a compute node"
            return [rejected(node.peer, reason)]
        execution = self._executions.live.get(payload.ExecutionID)
        if execution is None or execution.node != node.id:
            return self._late(node, payload)
        if isinstance(payload, BidResult) and payload.Accepted:
            return self._bid_offered(node, execution)
        state, body, fault = outcome(payload)
        self._executions.end(execution, state)
        return [execution.reply(ReplyKind.FINAL, body, fault)]

    def _bid_offered(self, node: Node, execution: LiveExecution) -> Outputs:
        """Accept a bid, and accept it again if the node repeats it: the first may be lost."""
        is_new = execution.state == NEW
        self._dispatcher.accept(node, execution)
        return [execution.reply(ReplyKind.ACCEPTED)] if is_new else []

    def _late(self, node: Node, payload: BidResult | RunResult | ComputeError) -> Outputs:
        """Return new messages about a cancelled execution to the core; drop replays."""
        name = payload.ExecutionID
        if not self._executions.is_known(name, node.id):
            reason = (
                f"{type(payload).__name__} for execution {name!r}, which node {node.id} never had"
            )
            return [Noted(Kind.LATE, node.peer, reason, outcome(payload)[1], dialect=NAME)]
        state, body, fault = outcome(payload)
        ended = self._executions.late(name, node.id, state)
        if ended is None or (isinstance(payload, BidResult)):
            return []
        late = LiveExecution(ended.job, ended.peer, ended.attempt)
        return [late.reply(ReplyKind.FINAL, body, fault)]


def rejected(peer: PeerId, reason: str) -> Noted:
    """Return the event that records an invalid message of a node."""
    return Noted(Kind.REJECTED, peer, reason, dialect=NAME)
