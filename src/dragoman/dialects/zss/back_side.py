"""The broker's back-end of ZSS: instances register with SMI, get requests and reply.

`registrations` handles what instances say to SMI.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendCancel, SendInput, SendWork
from dragoman.core.events import (
    Event,
    JobForwarded,
    Noted,
    ReplyKind,
    ReplyReceived,
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
from dragoman.dialects.zss.registrations import (
    SMI,
    ServiceRegistrations,
    smi_denied,
    smi_failed,
)
from dragoman.dialects.zss.replies import ZssReplies
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.statuses import fault_code
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
    read_names,
    with_sid,
    with_time,
    write_address,
)
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    JobId,
    PeerId,
    link_of,
    name_of,
    peer_id,
    raw_of,
    text_of,
)
from dragoman.model.record import Kind
from dragoman.model.target import resources_of

#: Status of a part to a service that asks whether the service holds the request.
POLL: Final = b"102"
#: The status of a part gives its kind; any other status is a piece of a stream.
_PARTS: Final = {b"102": ReplyKind.PROGRESS, b"100": ReplyKind.INPUT_ASKED}
#: Why a request to a service is refused here.
_NO_REQUEST: Final = (
    "this port is for ZSS services, and the sender holds no such request; "
    "clients use the other port, usually 7777"
)


class ZssBackSide:
    """The link that service instances connect to."""

    def __init__(
        self,
        link: str,
        *,
        front: str,
        replies: ZssReplies,
        instances: ServiceInstances,
        codecs: BodyCodecs,
        settings: ZssSettings,
    ) -> None:
        self.link = link
        self._front = front
        self._replies = replies
        self._instances = instances
        self._codecs = codecs
        self._settings = settings
        self._outstanding = OutstandingRequests()
        self._registrations = ServiceRegistrations(instances, settings)

    # --- messages from instances --------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> list[Event | Send]:
        """Read one message."""
        m = decode(frames)
        read = _RECEIVERS.get(m.kind)
        if read is None:
            raise MalformedMessage(f"unknown ZSS message type {m.kind[:16]!r}")
        return read(self, address, m, now)

    def _request(self, address: Address, m: ZssMessage, now: float) -> list[Event | Send]:
        """Read a request of an instance: to SMI, or to forward a request that it holds."""
        to = read_address(m.address)
        peer = self._peer(address)
        if to.sid.upper() == SMI:
            events = self._registrations.receive(peer, to.verb, m.payload, to.extra)
            if "unconfirmed" in to.extra and events is not None:
                return self._confirm(address, m, to.extra["unconfirmed"], events)
            return self._smi(address, m, events)
        request = self._outstanding.find(peer, m.identity or b"", m.rid)
        if request is None:
            return [Send(address, encode(smi_failed(m, _NO_REQUEST)))]
        self._outstanding.drop(peer, request.job)
        service = self._instances.find(to.sid, to.sversion)
        return [JobForwarded(peer, request.job, service, body_of(m), task=task_of(to.verb))]

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Answer a request to SMI with 500. Other messages have no answer."""
        m = decode(frames)
        return [Send(address, encode(smi_denied(m, fault)))] if m.kind == REQ else []

    def _smi(
        self, address: Address, m: ZssMessage, events: list[Event] | None
    ) -> list[Event | Send]:
        """Answer a request to SMI: 200 with its payload, or 500 if it failed (no events)."""
        if events is None:
            return [Send(address, encode(smi_failed(m)))]
        reply = replace(m, kind=REP, identity=None, status=b"200")
        return [Send(address, encode(reply)), *events]

    def _confirm(
        self, address: Address, m: ZssMessage, unconfirmed: object, events: list[Event]
    ) -> list[Event | Send]:
        """Tell an SDK worker which of its finished jobs this broker still waits for.

        The answer is strict: it leaves when every result that came before is on disk.
        """
        peer, jobs = self._peer(address), read_names(unconfirmed)
        waits = [job for job in jobs if self._outstanding.of_job(peer, JobId(job)) is not None]
        recorded = [job for job in jobs if job not in waits]
        fields = address_map(m.address) | {"open": waits, "recorded": recorded}
        reply = replace(m, kind=REP, identity=None, status=b"200", address=oldpack.encode(fields))
        return [*events, Send(address, encode(reply), is_strict=True)]

    def _reply(self, address: Address, m: ZssMessage, now: float) -> list[Event | Send]:
        request = self._outstanding_for(address, m)
        if request is None:
            return [self._rejected(address, "a reply to no outstanding request")]
        self._outstanding.drop(request.worker, request.job)
        body = self._body(m, now)
        fault = None if is_success(m.status) else self._fault(m, body)
        kind = ReplyKind.FINAL
        return [ReplyReceived(request.worker, request.job, kind, body, fault, request.attempt)]

    def _part(self, address: Address, m: ZssMessage, now: float) -> list[Event | Send]:
        request = self._outstanding_for(address, m)
        if request is None:
            return [self._rejected(address, "a part of a reply to no outstanding request")]
        kind = _PARTS.get(m.status, ReplyKind.CHUNK)
        if kind is ReplyKind.INPUT_ASKED:
            self._outstanding.questions[request.worker, request.job] = _question_name(m.address)
        body = self._body(m, now)
        return [ReplyReceived(request.worker, request.job, kind, body, None, request.attempt)]

    def _outstanding_for(self, address: Address, m: ZssMessage) -> OutstandingRequest | None:
        if m.identity is None:
            raise MalformedMessage(
                "a service's reply has 8 frames, the first is the client's identity"
            )
        return self._outstanding.find(self._peer(address), m.identity, m.rid)

    def _body(self, m: ZssMessage, now: float) -> Body:
        headers = m.headers
        if self._settings.traces:
            headers = with_time(headers, b"micro.bber", now)
        return Body(NAME, (m.protocol, m.rid, m.address, headers, m.status, m.payload))

    def _fault(self, m: ZssMessage, body: Body) -> Fault:
        """Return the fault of a failed reply. Only here the payload is read, for its message."""
        try:
            fault = self._codecs[NAME].read_answer(body).fault
        except Unmappable:
            fault = None
        return Fault(_named_fault(m.address), fault.message if fault is not None else "")

    def _rejected(self, address: Address, detail: str) -> Noted:
        return Noted(Kind.REJECTED, self._peer(address), detail, dialect=NAME)

    def _peer(self, address: Address) -> PeerId:
        return peer_id(self.link, text_of(address))

    # --- messages to instances ----------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Write the messages for one effect on an instance."""
        write = _RENDERERS.get(type(effect))
        return write(self, effect, now) if write is not None else []

    def resume_work(self, effect: SendWork, now: float) -> None:
        """Remember a request that an earlier process sent, so that its reply is recognised."""
        self._add_outstanding(effect, self._converted(effect, now), now)

    def _work(self, effect: SendWork, now: float) -> list[Send]:
        m = self._converted(effect, now)
        sid = self._instances.sid(effect.worker, effect.service)
        address, headers = with_sid(m.address, sid), self._traced(m.headers, effect, now)
        resources = resources_of(effect.target)
        if resources and effect.worker in self._registrations.reads_parts:
            address = oldpack.encode(address_map(address) | {"resources": list(resources)})
        alias = self._add_outstanding(effect, m, now)
        message = ZssMessage(REQ, m.rid, address, headers, m.status, m.payload, m.protocol, alias)
        return [Send(raw_of(name_of(effect.worker)), encode(message))]

    def _add_outstanding(self, effect: SendWork, m: ZssMessage, now: float) -> bytes:
        """Keep a request until its reply; return its client's name."""
        alias = self._alias(effect.client)
        request = OutstandingRequest(
            effect.worker, alias, m.rid, effect.job, effect.attempt, effect.service
        )
        self._outstanding.add(request, now)
        return alias

    def _converted(self, effect: SendWork, now: float) -> ZssMessage:
        """Return a request in ZSS form, with the fields that the body codec leaves empty."""
        try:
            m = message_of(convert_call(self._codecs, effect.body, NAME), REQ)
        except ValueError as error:
            raise Unmappable(f"not a ZSS body: {error}") from None
        if m.rid or effect.body.dialect == NAME:
            return m
        fields = address_map(m.address) | {"job": effect.job}
        if effect.run_until is not None:
            fields["timeout"] = max(0.0, round(effect.run_until - now, 3))
        address = oldpack.encode(fields)
        return replace(m, rid=effect.job.encode(), address=address, protocol=m.protocol or PROTOCOL)

    def _traced(self, headers: bytes, effect: SendWork, now: float) -> bytes:
        if not self._settings.traces:
            return headers
        received_at = self._replies.received_at(effect.job)
        if received_at is not None:
            headers = with_time(headers, b"micro.bfer", received_at)
        return with_time(headers, b"micro.bbes", now)

    def _alias(self, client: PeerId) -> bytes:
        """Return a client's name as text: JavaScript services return other bytes changed."""
        if link_of(client) != self._front:
            return f"{link_of(client)}#{name_of(client)}".encode()
        raw = raw_of(name_of(client))
        try:
            raw.decode()
        except UnicodeDecodeError:
            return b"client#" + raw.hex().encode()
        return raw

    def _input(self, effect: SendInput, now: float) -> list[Send]:
        if effect.worker not in self._registrations.reads_parts:
            raise Unmappable("this ZSS service reads no parts, so it cannot get input")
        m = message_of(convert_answer(self._codecs, effect.body, NAME), PRT)
        name = _question_name(m.address) if m.address else ""
        if name in ("", effect.job):
            # The answer came in another dialect, without the name of the question.
            name = self._outstanding.questions.get((effect.worker, effect.job), "")
        return self._to_holder(effect, replace(m, status=b"206"), request=name)

    def _cancel(self, effect: SendCancel, now: float) -> list[Send]:
        if effect.worker not in self._registrations.reads_parts:
            return []
        return self._to_holder(effect, ZssMessage(PRT, b"", b"", status=b"410"))

    def _to_holder(self, effect: SendInput | SendCancel, m: ZssMessage, **extra: str) -> list[Send]:
        """Send an instance a part of a request that it holds."""
        request = self._outstanding.of_job(effect.worker, effect.job)
        return [self._part_of(request, m, **extra)] if request is not None else []

    def _part_of(self, held: OutstandingRequest, m: ZssMessage, **extra: str) -> Send:
        sid = self._instances.sid(held.worker, held.service)
        part = replace(
            m,
            identity=held.alias,
            rid=held.rid,
            address=write_address(sid, "", **extra),
            protocol=m.protocol or PROTOCOL,
        )
        return Send(raw_of(name_of(held.worker)), encode(part))

    def _beat(self, effect: SendBeat, now: float) -> list[Send]:
        """Poll an SDK worker about requests that it has held for `poll_every` without a word."""
        if effect.worker not in self._registrations.answers_polls:
            return []
        before = now - self._settings.poll_every
        overdue = self._outstanding.overdue(effect.worker, before, now)
        return [
            self._part_of(request, ZssMessage(PRT, b"", b"", status=POLL)) for request in overdue
        ]

    def _dismiss(self, effect: Dismiss, now: float) -> list[Send]:
        """Forget an instance, without a message. Its next heartbeat registers it again."""
        self._registrations.forget(effect.peer)
        return []

    def advance(self, now: float) -> list[Event | Send]:
        """Do nothing: this side has no timers. The core keeps the leases."""
        return []

    def next_deadline(self) -> float | None:
        """Return None: this side has no timers."""
        return None


def _question_name(address: bytes) -> str:
    """Read the name of a question in an address; empty if there is none."""
    try:
        name = read_address(address).extra.get("request")
    except MalformedMessage:
        return ""
    return name if isinstance(name, str) else ""


def _named_fault(address: bytes) -> FaultCode:
    """Read the fault code in an address; only SDK workers name one, others get TASK_FAILED."""
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
_RENDERERS: Final[dict[type, Callable[[ZssBackSide, Any, float], list[Send]]]] = {
    SendWork: ZssBackSide._work,
    SendInput: ZssBackSide._input,
    SendCancel: ZssBackSide._cancel,
    SendBeat: ZssBackSide._beat,
    Dismiss: ZssBackSide._dismiss,
}
