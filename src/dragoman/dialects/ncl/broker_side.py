"""The orchestrator: what compute nodes say becomes events, effects become messages to them.

This module knows subjects and who is called when; the control plane, the publisher, executions,
results, upkeep and logs do the work. A data message is acked, with `{}`, after its records are on
disk, and never refused on the wire: what is wrong with it is put on record.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from dragoman.core.effects import Dismiss, Effect, SendCancel, SendInput, SendPoll, SendWork
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
from dragoman.dialects.ncl.dispatcher import Dispatcher, Told
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.executions import Executions, LiveExecution, execution_id
from dragoman.dialects.ncl.log_follower import LogFollower
from dragoman.dialects.ncl.messages import BacError
from dragoman.dialects.ncl.models import WireObject
from dragoman.dialects.ncl.node_timers import NodeTimers
from dragoman.dialects.ncl.nodes import REJECTED, Node
from dragoman.dialects.ncl.recovery import Fold, LoadBody
from dragoman.dialects.ncl.results import ResultHandler, rejected
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import name_of
from dragoman.model.record import Record

CONTROL_SOURCE: Final = "orchestrator-control"
REQUESTS_SOURCE: Final = "orchestrator-data-plane-responder"
_ACK: Final = [b"{}", b"", b""]
#: The one answer that moves a real node to NCL at once, without a warning.
LEGACY_REFUSAL: Final = dump(
    {
        "value": {
            "Accepted": False,
            "Reason": "node supports NCLv1 protocol - legacy protocol disabled",
        }
    }
)


class NclBrokerSide:
    """The broker's end of an NCL link. Its transport subscribes to `subscriptions`."""

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
        self._following = LogFollower(token, self.executions)
        self.dispatcher = Dispatcher(
            self._inbox, codecs, self.settings, self.executions, self._following
        )
        self.control = ControlPlane(
            link,
            self.settings,
            self.executions.taken,
            self.executions.is_free,
            lambda: self.dispatcher.newest,
        )
        self._results = ResultHandler(self.executions, self.dispatcher)
        self._upkeep = NodeTimers(self.settings, self.control, self.executions, self.dispatcher)
        #: What a render found out that only `advance` may tell.
        self._untold: Told = []
        self._channels: dict[str, Callable[[str, Frames, float], Told]] = {
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
        """What the transport has to subscribe to, before anything else."""
        return (
            wire.compute_subject("*", wire.CTRL),
            wire.compute_subject("*", wire.OUT_MSGS),
            wire.compute_subject("*", wire.REQUESTS),
            f"{wire.MANAGEMENT}.*.*",
            f"{self._inbox}.*",
            *self._following.subscriptions,
        )

    def node_rows(self, now: float) -> list[dict[str, Any]]:
        """Say how every node stands that is known."""
        return [node.row(now) for _, node in sorted(self.nodes.items())]

    def set_membership(self, name: str, membership: str, now: float) -> Told:
        """Let an operator approve or reject a node; an unknown one raises KeyError."""
        node = self.nodes[name]
        node.membership = membership
        if membership == REJECTED and node.is_connected:
            node.disconnect("node rejected", now)
            return [node.left(0.0), node.noted(now)]
        told: Told = [node.joined()] if node.is_connected else []
        return [*told, node.noted(now)]

    def restore(self, records: Iterable[Record], load_body: LoadBody, now: float) -> None:
        """Know again what an earlier process put on record, before anything else happens."""
        fold = Fold(self.link, records)
        self.dispatcher.newest = max(self.dispatcher.newest, fold.last)
        for state in fold.nodes(load_body):
            node = Node(self.link, state.Info, self.settings)
            node.restore(state, now)
            self.nodes[node.id] = node
            self._upkeep.watch(node)
        for was_out in fold.dispatches(load_body):
            if name_of(was_out.work.worker) in self.nodes:
                self.dispatcher.remember(was_out)

    # --- in -------------------------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> Sequence[Event | Send]:
        """Take one message in."""
        try:
            subject = address.decode()
        except UnicodeDecodeError:
            raise MalformedMessage("a subject that is not text") from None
        if len(frames) != 3:
            raise MalformedMessage(f"{len(frames)} frames instead of body, headers and reply")
        if not subject:
            return self._reconnected(now)
        if subject.startswith(self._inbox):
            return self._acked(subject, frames, now)
        if self._following.owns(subject):
            return self._following.receive(subject, frames)
        channel, node = wire.parse_subject(subject)
        handler = self._channels.get(channel)
        if handler is None:
            raise MalformedMessage(f"nothing is served on subject {subject}")
        return handler(node, frames, now)

    def _ctrl(self, name: str, frames: Frames, now: float) -> Told:
        reply = _reply_of(frames)
        told: Told = []
        try:
            message = wire.decode(frames[0])
        except MalformedMessage as error:
            answer: WireObject = undecodable(str(error))
            told.append(self._rejected(name, str(error)))
        else:
            said = node_of(message.payload)
            if said is not None and (said != name or not wire.is_node_id(said)):
                words = f"node {said!r} speaks on the subject of node {name!r}"
                answer = bad_request(words, "ConnectionManager")
                told.append(self._rejected(name, words))
            else:
                answer, events = self.control.answer(message.payload, now)
                told += events
        told.append(_answer(reply, answer, CONTROL_SOURCE, frames[1], now))
        node = self.nodes.get(name)
        return told + self._upkeep.serve(node, now) if node is not None else told

    def _data(self, name: str, frames: Frames, now: float) -> Told:
        reply = _reply_of(frames)
        node = self.nodes.get(name)
        if node is None:
            # Not acked: the sender tries again after the handshake it owes us.
            return [self._rejected(name, "data from a node that never shook hands")]
        ack = Send(reply.encode(), _ACK, is_strict=True)
        try:
            message = wire.decode(frames[0])
        except MalformedMessage as error:
            return [self._rejected(name, str(error)), ack]
        if message.source not in ("", name):
            words = f"{message.source!r} speaks on the subject of node {name!r}"
            return [self._rejected(name, words), ack]
        told = self._results.take(node, message.payload)
        node.heard_at = now
        node.compute_seq = message.seq or node.compute_seq
        return [*told, ack, *self._upkeep.serve(node, now)]

    def _request(self, name: str, frames: Frames, now: float) -> Told:
        reply = _reply_of(frames)
        try:
            wire.decode(frames[0])
            answer = bad_request("managed publishing is not offered here", "ManagedPublisher")
            told: Told = []
        except MalformedMessage as error:
            answer = undecodable(str(error))
            told = [self._rejected(name, str(error))]
        return [*told, _answer(reply, answer, REQUESTS_SOURCE, frames[1], now)]

    def _legacy(self, name: str, frames: Frames, now: float) -> Told:
        return [Send(_reply_of(frames).encode(), [LEGACY_REFUSAL, b"", b""])]

    def _acked(self, subject: str, frames: Frames, now: float) -> Told:
        """Take an ack, a refusal, or the server's word that nobody listens."""
        try:
            session, seq, name = subject[len(self._inbox) + 1 :].split("-", 2)
            node, at = self.nodes[name], int(seq)
        except (ValueError, KeyError):
            raise MalformedMessage(f"an ack of nothing that was sent: {subject}") from None
        if str(node.session) != session:
            return []
        if wire.is_ack(frames[0]):
            node.publisher.ack(at)
            return self._following.begin(node, at) + self._upkeep.serve(node, now)
        # Nothing is lost by a refusal: the message is sent again until its execution is over.
        node.publisher.fail(now)
        return self._upkeep.serve(node, now)

    def _reconnected(self, now: float) -> Told:
        """Send again at once what may have been lost with the connection to NATS."""
        told: Told = []
        for node in self.nodes.values():
            node.publisher.replay()
            told += self._upkeep.serve(node, now)
        return told

    def _rejected(self, name: str, words: str) -> Noted:
        return rejected(Node.name_peer(self.link, name), words)

    def speaks_as(self, address: Address, frames: Frames) -> str:
        """Name the node whose subject a message came on.

        Nobody, if it is an answer on a subject of ours: those are for the node that was asked, and
        the NATS server lets no other use them.
        """
        subject = address.decode(errors="replace")
        if subject.startswith(self._inbox) or self._following.owns(subject):
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
        """Turn a node away that asks for something; results are acked, and count for nothing."""
        channel, _ = wire.parse_subject(address.decode(errors="replace"))
        if channel != wire.CTRL or len(frames) != 3 or not frames[2]:
            return sends or []
        answer = access_denied(frames[0], fault.message)
        return [_answer(_reply_of(frames), answer, CONTROL_SOURCE, frames[1], now)]

    # --- out ------------------------------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on a peer of this link into messages."""
        renderer = self._renderers.get(type(effect))
        return renderer(effect, now) if renderer is not None else []

    def _work(self, effect: SendWork, now: float) -> list[Send]:
        node = self.nodes.get(name_of(effect.worker))
        if node is None:
            raise Unmappable(f"no compute node {name_of(effect.worker)!r} is known")
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
        """Let the core claim what a returned node holds; give back what nobody knows."""
        node = self.nodes.get(name_of(effect.worker))
        if node is None:
            return []
        if not self.dispatcher.claim(node, effect):
            words = f"nothing is known of this work on {node.id}"
            stray = LiveExecution(effect.job, effect.worker, effect.attempt)
            fault = Fault(FaultCode.HANDED_BACK, words)
            self._untold.append(stray.reply(ReplyKind.FINAL, fault=fault))
        return self._sends(node, now)

    def _input(self, effect: SendInput, now: float) -> list[Send]:
        raise Unmappable("NCL has no message for input to a running execution")

    def _dismiss(self, effect: Dismiss, now: float) -> list[Send]:
        """Make a node shake hands anew: its next heartbeat is answered with just that."""
        node = self.nodes.get(name_of(effect.peer))
        if node is not None and node.is_connected:
            node.disconnect(effect.reason, now)
            self._upkeep.watch(node)
        return []

    def _sends(self, node: Node, now: float) -> list[Send]:
        """Serve a node in a render, which returns messages only."""
        told = self._upkeep.serve(node, now)
        self._untold += [t for t in told if type(t) is not Send]
        return [t for t in told if type(t) is Send]

    # --- time -----------------------------------------------------------------------------------

    def advance(self, now: float) -> Sequence[Event | Send]:
        """Do what the side's own timers ask for."""
        told, self._untold = self._untold, []
        return told + self._upkeep.advance(now)

    def next_deadline(self) -> float | None:
        """When `advance` wants to be called next."""
        return 0.0 if self._untold else self._upkeep.next_deadline()


def _reply_of(frames: Frames) -> str:
    try:
        reply = frames[2].decode()
    except UnicodeDecodeError:
        reply = ""
    if not reply:
        raise MalformedMessage("a request without a reply subject")
    return reply


def _answer(reply: str, payload: WireObject, source: str, headers: bytes, now: float) -> Send:
    more = {}
    if wanted := wire.header_of(headers, wire.MESSAGE_ID):
        more[wire.MESSAGE_ID] = wanted
    if isinstance(payload, BacError):
        more |= {wire.STATUS_CODE: str(status_of(payload)), wire.ERROR_CODE: payload.Code}
    pairs = wire.metadata(payload, source, now, **more)
    return Send(reply.encode(), wire.frames(payload, pairs), is_strict=True)
