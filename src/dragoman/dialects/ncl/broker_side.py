"""The orchestrator side: turns messages of compute nodes into events, and effects into messages.

This module maps subjects to handlers. The control plane, dispatcher, result handler, node timers
and log follower do the work. The broker acks a data message with `{}` after its records are on
disk. It never refuses one on the wire; it records what is wrong with it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dragoman.core.effects import (
    Dismiss,
    Effect,
    LinkPast,
    SendCancel,
    SendInput,
    SendPoll,
    SendWork,
)
from dragoman.core.events import Event, Noted, ReplyKind
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Frames,
    MalformedMessage,
    Send,
)
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NAME
from dragoman.dialects.ncl.control import (
    ControlPlane,
    access_denied,
    bad_request,
    node_of,
    status_of,
    undecodable,
)
from dragoman.dialects.ncl.dispatcher import Dispatcher, Outputs
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.executions import Executions, LiveExecution, execution_id
from dragoman.dialects.ncl.log_follower import LogFollower
from dragoman.dialects.ncl.messages import BacError
from dragoman.dialects.ncl.models import WireObject
from dragoman.dialects.ncl.node_timers import NodeTimers
from dragoman.dialects.ncl.nodes import REJECTED, Node
from dragoman.dialects.ncl.recovery import LoadBody, read_nodes
from dragoman.dialects.ncl.results import ResultHandler, rejected
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import name_of

CONTROL_SOURCE: Final = "orchestrator-control"
REQUESTS_SOURCE: Final = "orchestrator-data-plane-responder"
_ACK: Final = [b"{}", b"", b""]
#: The only refusal after which a real node switches to NCL without a warning.
LEGACY_REFUSAL: Final = dump(
    {
        "value": {
            "Accepted": False,
            "Reason": "node supports NCLv1 protocol - legacy protocol disabled",
        }
    }
)


class NclBrokerSide:
    """The broker's side of an NCL link. Its transport subscribes to `subscriptions`."""

    def __init__(
        self,
        link: str = NAME,
        *,
        codecs: BodyCodecs,
        ids: Callable[[], str],
        settings: OrchestratorSettings | None = None,
    ) -> None:
        self.link = link
        self.settings = settings or OrchestratorSettings()
        token = wire.inbox_token(ids())
        self._inbox = f"_INBOX.{token}"
        self.executions = Executions(self.settings.remember)
        self._log_follower = LogFollower(token, self.executions)
        self.dispatcher = Dispatcher(
            self._inbox, codecs, self.settings, self.executions, self._log_follower
        )
        self.control = ControlPlane(
            link,
            self.settings,
            self.executions.taken,
            self.executions.is_free,
            lambda: self.dispatcher.newest_seq,
        )
        self._results = ResultHandler(self.executions, self.dispatcher)
        self._timers = NodeTimers(self.settings, self.control, self.executions, self.dispatcher)
        #: Events found while rendering. `render` returns messages only, so `advance` returns them.
        self._deferred: Outputs = []
        self._channels: dict[str, Callable[[str, Frames, float], Outputs]] = {
            wire.CTRL: self._ctrl,
            wire.OUT_MSGS: self._data,
            wire.REQUESTS: self._request,
            f"{wire.MANAGEMENT}.{wire.REGISTER}": self._legacy,
        }
        self._renderers: dict[type, Callable[[Any, float], list[Send]]] = {
            SendWork: self._work,
            SendCancel: self._cancel,
            SendPoll: self._poll,
            SendInput: self._input,
            Dismiss: self._dismiss,
        }

    @property
    def nodes(self) -> dict[str, Node]:
        """Every node this side knows, by id."""
        return self.control.nodes

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The subjects that the transport subscribes to first."""
        return (
            wire.compute_subject("*", wire.CTRL),
            wire.compute_subject("*", wire.OUT_MSGS),
            wire.compute_subject("*", wire.REQUESTS),
            f"{wire.MANAGEMENT}.*.*",
            f"{self._inbox}.*",
            *self._log_follower.subscriptions,
        )

    def node_rows(self, now: float) -> list[dict[str, object]]:
        """Return the status of every known node."""
        return [node.row(now) for _, node in sorted(self.nodes.items())]

    def set_membership(self, name: str, membership: str, now: float) -> Outputs:
        """Approve or reject a node for an operator. An unknown node raises KeyError."""
        node = self.nodes[name]
        node.membership = membership
        if membership == REJECTED and node.is_connected:
            node.disconnect("node rejected", now)
            return [node.left_event(0.0), node.state_note(now)]
        outputs: Outputs = [node.joined_event()] if node.is_connected else []
        return [*outputs, node.state_note(now)]

    def restore(self, past: LinkPast, load_body: LoadBody, now: float) -> None:
        """Restore nodes and executions of an earlier process. Call it first."""
        self.dispatcher.newest_seq = max(self.dispatcher.newest_seq, past.last_seq)
        for state in read_nodes(past, load_body):
            node = Node(self.link, state.Info, self.settings)
            node.restore(state, now)
            self.nodes[node.id] = node
            self._timers.schedule(node)
        for found in sorted(past.work, key=lambda found: found.work.seq):
            if name_of(found.work.worker) in self.nodes:
                self.dispatcher.restore(found)

    # --- in -------------------------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> Sequence[Event | Send]:
        """Handle one message."""
        try:
            subject = address.decode()
        except UnicodeDecodeError:
            raise MalformedMessage("the subject is not UTF-8") from None
        if len(frames) != 3:
            raise MalformedMessage(f"{len(frames)} frames instead of body, headers and reply")
        if not subject:
            return self._reconnected(now)
        if subject.startswith(self._inbox):
            return self._acked(subject, frames, now)
        if self._log_follower.owns(subject):
            return self._log_follower.receive(subject, frames)
        channel, node = wire.parse_subject(subject)
        handler = self._channels.get(channel)
        if handler is None:
            raise MalformedMessage(f"nothing is served on subject {subject}")
        return handler(node, frames, now)

    def _ctrl(self, name: str, frames: Frames, now: float) -> Outputs:
        reply = _reply_of(frames)
        outputs: Outputs = []
        try:
            message = wire.decode(frames[0])
        except MalformedMessage as error:
            answer: WireObject = undecodable(str(error))
            outputs.append(self._rejected(name, str(error)))
        else:
            claimed = node_of(message.payload)
            if claimed is not None and (claimed != name or not wire.is_node_id(claimed)):
                reason = f"node {claimed!r} sent a request on the subject of node {name!r}"
                answer = bad_request(reason, "ConnectionManager")
                outputs.append(self._rejected(name, reason))
            else:
                answer, events = self.control.answer(message.payload, now)
                outputs += events
        outputs.append(_answer(reply, answer, CONTROL_SOURCE, frames[1], now))
        node = self.nodes.get(name)
        return outputs + self._timers.send_pending(node, now) if node is not None else outputs

    def _data(self, name: str, frames: Frames, now: float) -> Outputs:
        reply = _reply_of(frames)
        node = self.nodes.get(name)
        if node is None:
            # No ack: the node sends it again after its handshake.
            return [self._rejected(name, "data message from a node without a handshake")]
        ack = Send(reply.encode(), _ACK, is_strict=True)
        try:
            message = wire.decode(frames[0])
        except MalformedMessage as error:
            return [self._rejected(name, str(error)), ack]
        if message.source not in ("", name):
            reason = f"{message.source!r} sent data on the subject of node {name!r}"
            return [self._rejected(name, reason), ack]
        outputs = self._results.take(node, message.payload)
        node.heard_at = now
        node.compute_seq = message.seq or node.compute_seq
        return [*outputs, ack, *self._timers.send_pending(node, now)]

    def _request(self, name: str, frames: Frames, now: float) -> Outputs:
        reply = _reply_of(frames)
        try:
            wire.decode(frames[0])
            answer = bad_request("managed publishing is not offered here", "ManagedPublisher")
            outputs: Outputs = []
        except MalformedMessage as error:
            answer = undecodable(str(error))
            outputs = [self._rejected(name, str(error))]
        return [*outputs, _answer(reply, answer, REQUESTS_SOURCE, frames[1], now)]

    def _legacy(self, name: str, frames: Frames, now: float) -> Outputs:
        return [Send(_reply_of(frames).encode(), [LEGACY_REFUSAL, b"", b""])]

    def _acked(self, subject: str, frames: Frames, now: float) -> Outputs:
        """Handle an ack, a refusal, or the NATS server's "no responders"."""
        try:
            session, seq, name = subject[len(self._inbox) + 1 :].split("-", 2)
            node, at = self.nodes[name], int(seq)
        except (ValueError, KeyError):
            raise MalformedMessage(f"ack for a message that was never sent: {subject}") from None
        if str(node.session) != session:
            return []
        if wire.is_ack(frames[0]):
            node.publisher.ack(at)
            return self._log_follower.request_acked(node, at) + self._timers.send_pending(node, now)
        # A refusal loses nothing: the message is sent again until its execution ends.
        node.publisher.fail(now)
        return self._timers.send_pending(node, now)

    def _reconnected(self, now: float) -> Outputs:
        """Resend everything unacked: the lost NATS connection may have dropped it."""
        outputs: Outputs = []
        for node in self.nodes.values():
            node.publisher.replay()
            outputs += self._timers.send_pending(node, now)
        return outputs

    def _rejected(self, name: str, reason: str) -> Noted:
        return rejected(Node.name_peer(self.link, name), reason)

    def speaks_as(self, address: Address, frames: Frames) -> str:
        """Return the node whose subject a message came on.

        An answer on one of our inboxes names no node: the NATS server lets only the node that was
        asked publish there.
        """
        subject = address.decode(errors="replace")
        if subject.startswith(self._inbox) or self._log_follower.owns(subject):
            return ""
        return wire.parse_subject(subject)[1] or subject

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Refuse a control request of a denied node. Its results are acked and ignored."""
        channel, _ = wire.parse_subject(address.decode(errors="replace"))
        if channel != wire.CTRL or len(frames) != 3 or not frames[2]:
            return sends or []
        answer = access_denied(frames[0], fault.message)
        return [_answer(_reply_of(frames), answer, CONTROL_SOURCE, frames[1], now)]

    # --- out ------------------------------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Return the messages for one effect on a peer of this link."""
        renderer = self._renderers.get(type(effect))
        return renderer(effect, now) if renderer is not None else []

    def _work(self, effect: SendWork, now: float) -> list[Send]:
        node = self.nodes.get(name_of(effect.worker))
        if node is None:
            raise Unmappable(f"compute node {name_of(effect.worker)!r} is unknown")
        self.dispatcher.start(node, effect, now)
        return self._sends(node, now)

    def _cancel(self, effect: SendCancel, now: float) -> list[Send]:
        node = self.nodes.get(name_of(effect.worker))
        name = execution_id(effect.job, effect.worker, effect.attempt)
        execution = self.executions.live.get(name)
        if node is None or execution is None:
            return []
        self.dispatcher.stop(node, execution, effect.seq)
        return self._sends(node, now)

    def _poll(self, effect: SendPoll, now: float) -> list[Send]:
        """Claim an execution of a returned node for the core. Hand back an unknown one."""
        node = self.nodes.get(name_of(effect.worker))
        if node is None:
            return []
        if not self.dispatcher.claim(node, effect):
            reason = f"the orchestrator has no execution of this attempt on node {node.id}"
            stray = LiveExecution(effect.job, effect.worker, effect.attempt)
            fault = Fault(FaultCode.HANDED_BACK, reason)
            self._deferred.append(stray.reply(ReplyKind.FINAL, fault=fault))
        return self._sends(node, now)

    def _input(self, effect: SendInput, now: float) -> list[Send]:
        raise Unmappable("NCL has no message for input to a running execution")

    def _dismiss(self, effect: Dismiss, now: float) -> list[Send]:
        """Disconnect a node. Its next heartbeat is answered with `HandshakeRequired`."""
        node = self.nodes.get(name_of(effect.peer))
        if node is not None and node.is_connected:
            node.disconnect(effect.reason, now)
            self._timers.schedule(node)
        return []

    def _sends(self, node: Node, now: float) -> list[Send]:
        """Return the messages for a node and defer its events to `advance`."""
        outputs = self._timers.send_pending(node, now)
        self._deferred += [item for item in outputs if type(item) is not Send]
        return [item for item in outputs if type(item) is Send]

    # --- time -----------------------------------------------------------------------------------

    def advance(self, now: float) -> Sequence[Event | Send]:
        """Return deferred events and whatever the node timers produce."""
        outputs, self._deferred = self._deferred, []
        return outputs + self._timers.advance(now)

    def next_deadline(self) -> float | None:
        """Return when `advance` is due next."""
        return 0.0 if self._deferred else self._timers.next_deadline()


def _reply_of(frames: Frames) -> str:
    try:
        reply = frames[2].decode()
    except UnicodeDecodeError:
        reply = ""
    if not reply:
        raise MalformedMessage("request without a reply subject")
    return reply


def _answer(reply: str, payload: WireObject, source: str, headers: bytes, now: float) -> Send:
    extra = {}
    if message_id := wire.header_of(headers, wire.MESSAGE_ID):
        extra[wire.MESSAGE_ID] = message_id
    if isinstance(payload, BacError):
        extra |= {wire.STATUS_CODE: str(status_of(payload)), wire.ERROR_CODE: payload.Code}
    pairs = wire.metadata(payload, source, now, **extra)
    return Send(reply.encode(), wire.frames(payload, pairs), is_strict=True)
