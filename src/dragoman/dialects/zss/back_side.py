"""The broker's back-end of ZSS: instances register with SMI, get requests and reply.

SMI, the service management interface, is called a service on the wire but *is* registration, so it
lives here and not among the services.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendCancel, SendInput, SendWork
from dragoman.core.events import (
    BeatReceived,
    Event,
    JobForwarded,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import (
    Address,
    BodyCodecs,
    Frames,
    MalformedMessage,
    Send,
    convert_answer,
    convert_call,
)
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import task_of
from dragoman.dialects.zss.instances import ServiceInstances
from dragoman.dialects.zss.outstanding import OutstandingRequest, OutstandingRequests
from dragoman.dialects.zss.replies import ZssReplies
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.statuses import fault_code, refusal_payload
from dragoman.dialects.zss.wire import (
    NAME,
    PROTOCOL,
    PRT,
    REP,
    REQ,
    ZssMessage,
    address_map,
    body_of,
    decode,
    encode,
    is_success,
    message_of,
    read_address,
    with_sid,
    with_time,
    write_address,
)
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, WorkerName, link_of, name_of, peer_id, raw_of, text_of
from dragoman.model.record import Kind
from dragoman.model.target import resources_of

SMI: Final = "SMI"
_LONGEST: Final = 256
_MOST_CREDIT: Final = 10_000
#: A part to a service with this status asks whether it has the request.
POLL: Final = b"102"
#: The status of a part says what it is; any other is a piece of a stream.
_PARTS: Final = {b"102": ReplyKind.PROGRESS, b"100": ReplyKind.INPUT_ASKED}


class ZssBackSide:
    """The link that service instances connect to."""

    def __init__(
        self,
        link: str,
        *,
        front: str,
        answers: ZssReplies,
        instances: ServiceInstances,
        codecs: BodyCodecs,
        settings: ZssSettings,
    ) -> None:
        self.link = link
        self._front = front
        self._answers = answers
        self._instances = instances
        self._codecs = codecs
        self._settings = settings
        self._outstanding = OutstandingRequests()
        #: Instances that read parts: input and cancels can be told to them.
        self._reads_parts: set[PeerId] = set()
        #: Instances that say so when they are asked about a request that they do not have.
        self._answers_polls: set[PeerId] = set()

    # --- what instances say -------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> list[Event | Send]:
        """Take one message in."""
        m = decode(frames)
        read = _RECEIVERS.get(m.kind)
        if read is None:
            raise MalformedMessage(f"unknown ZSS message type {m.kind[:16]!r}")
        return read(self, address, m, now)

    def _request(self, address: Address, m: ZssMessage, now: float) -> list[Event | Send]:
        """Take a request of an instance: to SMI, or a hand-over of one it holds."""
        to = read_address(m.address)
        peer = self._peer(address)
        if to.sid == SMI:
            act = _SMI.get(to.verb.upper())
            if act is None:
                return self._smi(address, m, None)
            return self._smi(address, m, act(self, peer, _sid(m.payload), to.extra))
        asked = self._outstanding.find(peer, m.identity or b"", m.rid)
        if asked is None:
            return self._smi(address, m, None)
        self._outstanding.drop(peer, asked.job)
        service = self._instances.find(to.sid, to.sversion)
        return [JobForwarded(peer, asked.job, service, body_of(m), task=task_of(to.verb))]

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Answer a request to SMI with 500; what is no request has no answer here."""
        m = decode(frames)
        return [Send(address, encode(_came_to_nothing(m)))] if m.kind == REQ else []

    def _smi(
        self, address: Address, m: ZssMessage, events: list[Event] | None
    ) -> list[Event | Send]:
        """Answer a request to SMI: 200 with its payload, or 500 if it came to nothing."""
        if events is None:
            return [Send(address, encode(_came_to_nothing(m)))]
        reply = replace(m, kind=REP, identity=None, status=b"200")
        return [Send(address, encode(reply)), *events]

    def _up(self, peer: PeerId, sid: str, extra: Any) -> list[Event] | None:
        # One of ours that starts anew under its old name is not the one that registered.
        is_new = self._instances.up(peer, sid) or extra.get("holds") == 0
        return [self._joined(peer, extra)] if is_new else None

    def _heartbeat(self, peer: PeerId, sid: str, extra: Any) -> list[Event] | None:
        """Keep an instance, or register it: services never say UP a second time."""
        if self._instances.is_up(peer, sid):
            return [BeatReceived(peer)]
        return self._up(peer, sid, extra)

    def _down(self, peer: PeerId, sid: str, extra: Any) -> list[Event] | None:
        if not self._instances.down(peer, sid):
            return None
        if self._instances.services(peer):
            return [self._joined(peer, extra)]
        self._reads_parts.discard(peer)
        self._answers_polls.discard(peer)
        return [PeerLeft(peer, "went down", self._settings.grace)]

    def _joined(self, peer: PeerId, extra: Any) -> WorkerJoined:
        settings, is_ours = self._settings, extra.get("partial") is True
        if is_ours:
            self._reads_parts.add(peer)
        if extra.get("polls") is True:
            self._answers_polls.add(peer)
        said, labels = extra.get("credit"), extra.get("labels")
        pairs = labels.items() if isinstance(labels, dict) else ()
        credit = min(max(said, 1), _MOST_CREDIT) if type(said) is int else settings.credit
        return WorkerJoined(
            peer,
            WorkerName(name_of(peer)),
            self._instances.services(peer),
            credit=credit,
            credit_returns=True,
            beat_every=settings.beat_every,
            missed_allowed=settings.missed_allowed,
            can_cancel=is_ours,
            labels={str(key): label for key, label in pairs if isinstance(label, str)},
            holds=frozenset() if extra.get("holds") == 0 else None,
            dialect=NAME,
        )

    def _reply(self, address: Address, m: ZssMessage, now: float) -> list[Event | Send]:
        asked = self._asked(address, m)
        if asked is None:
            return [self._rejected(address, "a reply that nobody waits for")]
        self._outstanding.drop(asked.worker, asked.job)
        body = self._body(m, now)
        fault = None if is_success(m.status) else self._fault(m, body)
        kind = ReplyKind.FINAL
        return [ReplyReceived(asked.worker, asked.job, kind, body, fault, asked.attempt)]

    def _part(self, address: Address, m: ZssMessage, now: float) -> list[Event | Send]:
        asked = self._asked(address, m)
        if asked is None:
            return [self._rejected(address, "a part of a reply that nobody waits for")]
        kind = _PARTS.get(m.status, ReplyKind.CHUNK)
        if kind is ReplyKind.INPUT_ASKED:
            self._outstanding.questions[asked.worker, asked.job] = _request(m.address)
        body = self._body(m, now)
        return [ReplyReceived(asked.worker, asked.job, kind, body, None, asked.attempt)]

    def _asked(self, address: Address, m: ZssMessage) -> OutstandingRequest | None:
        if m.identity is None:
            raise MalformedMessage("a service's reply has 8 frames: its client's identity is first")
        return self._outstanding.find(self._peer(address), m.identity, m.rid)

    def _body(self, m: ZssMessage, now: float) -> Body:
        headers = m.headers
        if self._settings.traces:
            headers = with_time(headers, b"micro.bber", now)
        return Body(NAME, (m.protocol, m.rid, m.address, headers, m.status, m.payload))

    def _fault(self, m: ZssMessage, body: Body) -> Fault:
        """Name a failure. Only here a payload is looked at, for words for those who ask why."""
        try:
            said = self._codecs[NAME].read_answer(body).fault
        except Unmappable:
            said = None
        words = said.message if said is not None else ""
        return Fault(_named_fault(m.address), words)

    def _rejected(self, address: Address, words: str) -> Noted:
        return Noted(Kind.REJECTED, self._peer(address), words, dialect=NAME)

    def _peer(self, address: Address) -> PeerId:
        return peer_id(self.link, text_of(address))

    # --- what the broker says ---------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect on an instance into messages."""
        write = _RENDERERS.get(type(effect))
        return write(self, effect, now) if write is not None else []

    def _work(self, effect: SendWork, now: float) -> list[Send]:
        m = self._dressed(effect, now)
        sid = self._instances.sid(effect.worker, effect.service)
        alias = self._alias(effect.client)
        address, headers = with_sid(m.address, sid), self._traced(m.headers, effect, now)
        resources = resources_of(effect.target)
        if resources and effect.worker in self._reads_parts:
            address = oldpack.encode(address_map(address) | {"resources": list(resources)})
        asked = OutstandingRequest(
            effect.worker, alias, m.rid, effect.job, effect.attempt, effect.service
        )
        self._outstanding.add(asked, now)
        request = ZssMessage(REQ, m.rid, address, headers, m.status, m.payload, m.protocol, alias)
        return [Send(raw_of(name_of(effect.worker)), encode(request))]

    def _dressed(self, effect: SendWork, now: float) -> ZssMessage:
        """Return a request as an instance reads it; what its dress could not know is filled in."""
        try:
            m = message_of(convert_call(self._codecs, effect.body, NAME), REQ)
        except ValueError as trouble:
            raise Unmappable(f"a ZSS body that is none: {trouble}") from None
        if m.rid or effect.body.dialect == NAME:
            return m
        said = address_map(m.address) | {"job": effect.job}
        if effect.run_until is not None:
            said["timeout"] = max(0.0, round(effect.run_until - now, 3))
        address = oldpack.encode(said)
        return replace(m, rid=effect.job.encode(), address=address, protocol=m.protocol or PROTOCOL)

    def _traced(self, headers: bytes, effect: SendWork, now: float) -> bytes:
        if not self._settings.traces:
            return headers
        received_at = self._answers.received_at(effect.job)
        if received_at is not None:
            headers = with_time(headers, b"micro.bfer", received_at)
        return with_time(headers, b"micro.bbes", now)

    def _alias(self, client: PeerId) -> bytes:
        """Name a client to a service in text: some services cannot give other bytes back."""
        if link_of(client) != self._front:
            return f"{link_of(client)}#{name_of(client)}".encode()
        raw = raw_of(name_of(client))
        try:
            raw.decode()
        except UnicodeDecodeError:
            return b"client#" + raw.hex().encode()
        return raw

    def _input(self, effect: SendInput, now: float) -> list[Send]:
        if effect.worker not in self._reads_parts:
            raise Unmappable("this ZSS service takes no parts of requests")
        m = message_of(convert_answer(self._codecs, effect.body, NAME), PRT)
        request = _request(m.address) if m.address else ""
        if request in ("", effect.job):
            # Asked and answered in other dialects, where questions have no names of ours.
            request = self._outstanding.questions.get((effect.worker, effect.job), "")
        return self._to_holder(effect, replace(m, status=b"206"), request=request)

    def _cancel(self, effect: SendCancel, now: float) -> list[Send]:
        if effect.worker not in self._reads_parts:
            return []
        return self._to_holder(effect, ZssMessage(PRT, b"", b"", status=b"410"))

    def _to_holder(self, effect: SendInput | SendCancel, m: ZssMessage, **extra: str) -> list[Send]:
        """Send an instance a part that belongs to a request it holds."""
        asked = self._outstanding.of_job(effect.worker, effect.job)
        return [self._about(asked, m, **extra)] if asked is not None else []

    def _about(self, asked: OutstandingRequest, m: ZssMessage, **extra: str) -> Send:
        sid = self._instances.sid(asked.worker, asked.service)
        part = replace(
            m,
            identity=asked.alias,
            rid=asked.rid,
            address=write_address(sid, "", **extra),
            protocol=m.protocol or PROTOCOL,
        )
        return Send(raw_of(name_of(asked.worker)), encode(part))

    def _beat(self, effect: SendBeat, now: float) -> list[Send]:
        """Ask one of ours about what it has held in silence for long."""
        if effect.worker not in self._answers_polls:
            return []
        before = now - self._settings.poll_every
        overdue = self._outstanding.overdue(effect.worker, before, now)
        return [self._about(asked, ZssMessage(PRT, b"", b"", status=POLL)) for asked in overdue]

    def _dismiss(self, effect: Dismiss, now: float) -> list[Send]:
        """Forget an instance. Nothing is said to it: its next heartbeat registers it again."""
        self._instances.forget(effect.peer)
        self._reads_parts.discard(effect.peer)
        self._answers_polls.discard(effect.peer)
        return []

    def advance(self, now: float) -> list[Event | Send]:
        """Do nothing: the side has no timers, leases are the core's."""
        return []

    def next_deadline(self) -> float | None:
        """Want nothing."""
        return None


def _came_to_nothing(m: ZssMessage) -> ZssMessage:
    """Write SMI's answer to a request that came to nothing."""
    return replace(m, kind=REP, identity=None, status=b"500", payload=refusal_payload(500))


def _sid(payload: bytes) -> str:
    """Read the sid an SMI request is about."""
    try:
        said = oldpack.decode(payload)
    except ValueError as trouble:
        raise MalformedMessage(f"the payload is {trouble}") from None
    if not isinstance(said, str) or not 0 < len(said) <= _LONGEST or not said.isprintable():
        raise MalformedMessage("the payload of an SMI request is the sid of the service, as text")
    return said


def _request(address: bytes) -> str:
    """Read the name of a question beside an address."""
    try:
        said = read_address(address).extra.get("request")
    except MalformedMessage:
        return ""
    return said if isinstance(said, str) else ""


def _named_fault(address: bytes) -> FaultCode:
    """Read which fault a service of ours names beside its address; others just failed."""
    try:
        return fault_code(read_address(address).extra.get("fault"))
    except MalformedMessage:
        return FaultCode.TASK_FAILED


_RECEIVERS: Final[
    dict[bytes, Callable[[ZssBackSide, Address, ZssMessage, float], list[Event | Send]]]
] = {
    REQ: ZssBackSide._request,
    REP: ZssBackSide._reply,
    PRT: ZssBackSide._part,
}
_SMI: Final[dict[str, Callable[[ZssBackSide, PeerId, str, Any], list[Event] | None]]] = {
    "UP": ZssBackSide._up,
    "DOWN": ZssBackSide._down,
    "HEARTBEAT": ZssBackSide._heartbeat,
}
_RENDERERS: Final[dict[type, Callable[[ZssBackSide, Any, float], list[Send]]]] = {
    SendWork: ZssBackSide._work,
    SendInput: ZssBackSide._input,
    SendCancel: ZssBackSide._cancel,
    SendBeat: ZssBackSide._beat,
    Dismiss: ZssBackSide._dismiss,
}
