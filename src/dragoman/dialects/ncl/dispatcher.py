"""What leaves for the nodes: dispatches, cancels and claims become ordered messages.

Each node has its own publisher; the sequence number of a message is the position in the ledger of
the record that caused it, moved up where one record causes two messages.
"""

from typing import Final

import msgspec

from dragoman.core.effects import SendPoll, SendWork
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
from dragoman.dialects.ncl.recovery import OpenDispatch
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.body import Body
from dragoman.model.content import Unmappable

#: Room for headers and metadata beside a body, when its size is judged before it is written.
_AROUND: Final = 4096

#: What the parts of the orchestrator's side return: events for the core, messages for nodes.
Told = list[Event | Send]


class Dispatcher:
    """Fills the publishers and empties them."""

    def __init__(
        self,
        inbox: str,
        codecs: BodyCodecs,
        settings: OrchestratorSettings,
        executions: Executions,
        following: LogFollower,
    ) -> None:
        self._inbox = inbox
        self._codecs = codecs
        self._settings = settings
        self._executions = executions
        self._following = following
        #: The highest position of the ledger that was sent or heard of.
        self.newest = 0

    # --- in order -------------------------------------------------------------------------------

    def start(self, node: Node, work: SendWork, now: float) -> None:
        """Ask a node for a bid on new work, or tell it to run it."""
        execution = LiveExecution(work.job, work.worker, work.attempt, work.needs)
        if execution.id in self._executions.live:
            return
        ask = ask_for_bid(work, self.params(work.body), self._settings, now)
        execution.polled_in = node.session
        if ask.Execution.DesiredState.StateType == RUN:
            execution.state = BID_ACCEPTED
        self._executions.add(execution)
        self.put(node, execution, ask, work.seq)

    def remember(self, was_out: OpenDispatch) -> None:
        """Know an execution again; what of it reached its node is not known."""
        work = was_out.work
        execution = LiveExecution(work.job, work.worker, work.attempt, work.needs)
        try:
            ask = ask_for_bid(work, self.params(work.body), self._settings, was_out.at)
        except Unmappable:
            return
        execution.sent.append(OrderedMessage(work.seq, ask))
        if was_out.accepted:
            execution.sent.append(OrderedMessage(was_out.accepted, BidAccepted(None, execution.id)))
        if was_out.accepted or ask.Execution.DesiredState.StateType == RUN:
            execution.state = BID_ACCEPTED
        execution.is_unsure = True
        self._executions.add(execution)

    def params(self, body: Body) -> dict[str, object]:
        """Dress a request as the parameters of an engine."""
        dressed = convert_call(self._codecs, body, NAME)
        if dressed.size + _AROUND > self._settings.max_payload:
            words = f"{dressed.size} bytes are more than NATS carries"
            raise Unmappable(f"{words} ({self._settings.max_payload} with all headers)")
        try:
            return msgspec.json.decode(dressed.parts[0], type=dict[str, object])
        except (*BAD_JSON, IndexError) as error:
            raise Unmappable(f"this body is not an ncl request: {error}") from None

    def accept(self, node: Node, execution: LiveExecution) -> None:
        """Take a node's bid."""
        execution.state = BID_ACCEPTED
        execution.sent = execution.sent[:1]
        self.put(node, execution, BidAccepted(None, execution.id), 0)

    def stop(self, node: Node, execution: LiveExecution, seq: int = 0) -> None:
        """End an execution from this side; one whose bid was not taken yet is rejected."""
        kind = BidRejected if execution.state == NEW else CancelExecution
        self.put(node, execution, kind(None, execution.id), seq)
        self._executions.end(execution, CANCELLED)

    def claim(self, node: Node, poll: SendPoll) -> bool:
        """Send again what a returned node may have lost of an execution.

        False when nothing is known of it; the node is then told to stop it, should it have it.
        """
        name = execution_id(poll.job, poll.worker, poll.attempt)
        execution = self._executions.live.get(name)
        if execution is None:
            node.publisher.put(0, CancelExecution(None, name))
            return False
        execution.polled_in = node.session
        lost = [self._may_be_lost(node, execution, item) for item in execution.sent]
        if any(lost):
            # From the first that may be lost on: what came after it means nothing without it.
            first = lost.index(True)
            again, execution.sent = execution.sent[first:], execution.sent[:first]
            for item in again:
                self.put(node, execution, item.payload, 0)
        execution.is_unsure = False
        return True

    @staticmethod
    def _may_be_lost(node: Node, execution: LiveExecution, item: OrderedMessage) -> bool:
        """Whether a node may lack a message that will not reach it anyway."""
        if execution.is_unsure:
            return True
        return item.seq > node.had and not node.publisher.holds(item.seq)

    def put(self, node: Node, execution: LiveExecution, payload: WireObject, seq: int) -> None:
        """Queue one message about an execution."""
        item = node.publisher.put(seq, payload)
        self.newest = max(self.newest, item.seq)
        execution.sent.append(item)
        if self._settings.follow_logs and execution.state == BID_ACCEPTED:
            self._following.want(node, execution, item.seq)

    # --- out ------------------------------------------------------------------------------------

    def leave(self, node: Node, now: float) -> Told:
        """Return the messages that may go to a node now."""
        leaving = node.publisher.pump(now)
        out: Told = [self._message(node, item, now) for item in leaving]
        return out + self._following.begin_ours(node) if leaving else out

    def _message(self, node: Node, item: OrderedMessage, now: float) -> Send:
        subject = wire.compute_subject(node.id, wire.IN_MSGS)
        source = f"orchestrator-{node.id}"
        pairs = wire.data_metadata(item.payload, source, now, item.seq, subject)
        reply = f"{self._inbox}.{node.session}-{item.seq}-{node.id}"
        # Strict: what it answers (an offered bid, say) is on disk before it leaves.
        return Send(subject.encode(), wire.frames(item.payload, pairs, reply), is_strict=True)
