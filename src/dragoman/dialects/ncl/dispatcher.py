"""The orchestrator's dispatcher: turns dispatches, cancels and claims into ordered messages.

Each node has its own publisher. The sequence number of a message is the ledger position of the
record that caused it, raised where one record causes two messages.
"""

import msgspec

from dragoman.core.effects import RecoveredWork, SendPoll, SendWork
from dragoman.core.events import Event
from dragoman.dialects.base import BodyCodecs, Send, convert_call
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NAME
from dragoman.dialects.ncl.dataplane import OrderedMessage
from dragoman.dialects.ncl.envelope import BAD_JSON
from dragoman.dialects.ncl.executions import Executions, LiveExecution, ask_for_bid, execution_id
from dragoman.dialects.ncl.log_follower import LogFollower
from dragoman.dialects.ncl.messages import BidAccepted, BidRejected, CancelExecution
from dragoman.dialects.ncl.models import BID_ACCEPTED, CANCELLED, NEW, RUN, WireObject
from dragoman.dialects.ncl.nodes import Node
from dragoman.dialects.ncl.settings import OVERHEAD, OrchestratorSettings
from dragoman.model.body import Body
from dragoman.model.content import Unmappable

#: Events for the core and messages for nodes.
Outputs = list[Event | Send]


class Dispatcher:
    """Queues messages for nodes and returns those that may be sent."""

    def __init__(
        self,
        inbox: str,
        codecs: BodyCodecs,
        settings: OrchestratorSettings,
        executions: Executions,
        log_follower: LogFollower,
    ) -> None:
        self._inbox = inbox
        self._codecs = codecs
        self._settings = settings
        self._executions = executions
        self._log_follower = log_follower
        #: The highest ledger position that was sent or restored.
        self.newest_seq = 0

    # --- queueing -------------------------------------------------------------------------------

    def start(self, node: Node, work: SendWork, now: float) -> None:
        """Ask a node for a bid on new work, or tell the node to run it."""
        execution = LiveExecution(work.job, work.worker, work.attempt, work.needs)
        if execution.id in self._executions.live:
            return
        ask = ask_for_bid(work, self.params(work.body), self._settings, now)
        execution.claimed_in = node.session
        if ask.Execution.DesiredState.StateType == RUN:
            execution.state = BID_ACCEPTED
        self._executions.add(execution)
        self.queue(node, execution, ask, work.seq)

    def restore(self, found: RecoveredWork) -> None:
        """Restore an execution after a restart. What reached its node is unknown."""
        work = found.work
        execution = LiveExecution(work.job, work.worker, work.attempt, work.needs)
        try:
            ask = ask_for_bid(work, self.params(work.body), self._settings, found.at)
        except Unmappable:
            return
        execution.sent.append(OrderedMessage(work.seq, ask))
        if found.accept_seq:
            execution.sent.append(OrderedMessage(found.accept_seq, BidAccepted(None, execution.id)))
        if found.accept_seq or ask.Execution.DesiredState.StateType == RUN:
            execution.state = BID_ACCEPTED
        execution.is_delivery_unknown = True
        self._executions.add(execution)

    def params(self, body: Body) -> dict[str, object]:
        """Convert a request body to engine parameters."""
        body_out = convert_call(self._codecs, body, NAME)
        if body_out.size + OVERHEAD > self._settings.max_payload:
            limit = self._settings.max_payload
            raise Unmappable(f"{body_out.size} bytes exceed max_payload of NATS, {limit} bytes")
        try:
            return msgspec.json.decode(body_out.parts[0], type=dict[str, object])
        except (*BAD_JSON, IndexError) as error:
            raise Unmappable(f"not an NCL request body: {error}") from None

    def accept(self, node: Node, execution: LiveExecution) -> None:
        """Accept a node's bid."""
        execution.state = BID_ACCEPTED
        execution.sent = execution.sent[:1]
        self.queue(node, execution, BidAccepted(None, execution.id), 0)

    def stop(self, node: Node, execution: LiveExecution, seq: int = 0) -> None:
        """End an execution: reject its bid if it was not accepted yet, else cancel it."""
        kind = BidRejected if execution.state == NEW else CancelExecution
        self.queue(node, execution, kind(None, execution.id), seq)
        self._executions.end(execution, CANCELLED)

    def claim(self, node: Node, poll: SendPoll) -> bool:
        """Resend what a returned node may have lost of an execution.

        Returns False if the execution is unknown. The node is then told to cancel it.
        """
        name = execution_id(poll.job, poll.worker, poll.attempt)
        execution = self._executions.live.get(name)
        if execution is None:
            node.publisher.put(0, CancelExecution(None, name))
            return False
        execution.claimed_in = node.session
        lost = [self._may_be_lost(node, execution, item) for item in execution.sent]
        if any(lost):
            # Resend from the first lost message on: later ones need it.
            first = lost.index(True)
            resent, execution.sent = execution.sent[first:], execution.sent[:first]
            for item in resent:
                self.queue(node, execution, item.payload, 0)
        execution.is_delivery_unknown = False
        return True

    @staticmethod
    def _may_be_lost(node: Node, execution: LiveExecution, item: OrderedMessage) -> bool:
        """Whether a node may lack a message that is not queued for it."""
        if execution.is_delivery_unknown:
            return True
        return item.seq > node.session_start and not node.publisher.holds(item.seq)

    def queue(self, node: Node, execution: LiveExecution, payload: WireObject, seq: int) -> None:
        """Queue one message about an execution."""
        item = node.publisher.put(seq, payload)
        self.newest_seq = max(self.newest_seq, item.seq)
        execution.sent.append(item)
        if self._settings.follow_logs and execution.state == BID_ACCEPTED:
            self._log_follower.follow(node, execution, item.seq)

    # --- sending --------------------------------------------------------------------------------

    def pending_sends(self, node: Node, now: float) -> Outputs:
        """Return the messages to send to a node now."""
        sendable = node.publisher.pump(now)
        sends: Outputs = [self._message(node, item, now) for item in sendable]
        return sends + self._log_follower.request_from_own_worker(node) if sendable else sends

    def _message(self, node: Node, item: OrderedMessage, now: float) -> Send:
        subject = wire.compute_subject(node.id, wire.IN_MSGS)
        source = f"orchestrator-{node.id}"
        pairs = wire.data_metadata(item.payload, source, now, item.seq, subject)
        reply = f"{self._inbox}.{node.session}-{item.seq}-{node.id}"
        # Strict: the record it answers (an offered bid, say) is durable before this is sent.
        return Send(subject.encode(), wire.frames(item.payload, pairs, reply), is_strict=True)
