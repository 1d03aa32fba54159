"""A service's end of ZSS, for the SDK.

It registers as Ruby's services do, in seven frames. Its SMI address adds what upstream's broker
ignores: its credit, and that it reads parts. Its heartbeats carry the same, because a heartbeat
registers an unknown instance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dragoman.dialects.base import Frames, MalformedMessage, check_result_size
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    InputGiven,
    SendNow,
    Stop,
    Unsupported,
    WorkerNotice,
)
from dragoman.dialects.unconfirmed import UnconfirmedResults
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import ZssBodyCodec, answer_frames, call_message
from dragoman.dialects.zss.wire import (
    PRT,
    REP,
    REQ,
    ZssAddress,
    ZssMessage,
    address_map,
    body_of,
    decode,
    encode,
    read_address,
    read_names,
    write_address,
)
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId

#: The broker answers every heartbeat. After so many without an answer it is lost.
_BEATS_UNANSWERED: Final = 5
_NO_ADDRESS: Final = ZssAddress("")
#: The answer to a poll about an unknown request: it never arrived, or its reply is sent already.
_MISSING: Final = Fault(FaultCode.HANDED_BACK, "the service does not have it")


class ZssWorkerSide:
    """One service instance: registers, reads requests, writes replies."""

    def __init__(
        self,
        services: Sequence[str],
        *,
        concurrency: int | None = None,
        beat_every: float = 1.0,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._labels = dict(labels or {})
        #: A sid may have a version after `@`, as in `math@1.2.0`.
        self._sids = [service.upper() for service in services]
        self._concurrency = concurrency
        self.beat_every = beat_every
        self.hold: float | None = beat_every * _BEATS_UNANSWERED
        self._codec = ZssBodyCodec()
        self._requests: dict[str, ZssMessage] = {}
        self._unconfirmed = UnconfirmedResults()
        self._count = 0
        #: Why the policy refused the registration; empty if it did not.
        self.refusal = ""
        #: The sids whose UP or HEARTBEAT the broker has accepted since `join`.
        self._accepted: set[str] = set()

    @property
    def is_joined(self) -> bool:
        """Return whether every sid is registered."""
        return self._accepted.issuperset(self._sids)

    @property
    def can_give_back(self) -> bool:
        """Whether the broker gives a returned job to another service: ours names its jobs."""
        return all(_job(m) for m in self._requests.values())

    def join(self) -> list[Frames]:
        """Register every sid. The broker refuses a known one, which does no harm."""
        # With the first sid only: requests may arrive before the second one is registered.
        self._accepted.clear()
        jobs = [_job(m) for m in self._requests.values()]
        # Without the id of every request the worker cannot declare what it holds.
        holds = {"holds": [*jobs, *self._unconfirmed.jobs()] or 0} if all(jobs) else {}
        first, *others = self._sids
        return [self._smi("UP", first, **holds), *(self._smi("UP", sid) for sid in others)]

    def beat(self) -> list[Frames]:
        """Write one heartbeat per sid."""
        return [self._smi("HEARTBEAT", sid) for sid in self._sids]

    def confirm(self) -> list[Frames]:
        """Ask which of the finished jobs the broker still waits for."""
        jobs = self._unconfirmed.jobs()
        return [self._smi("HEARTBEAT", self._sids[0], unconfirmed=jobs)] if jobs else []

    def leave(self) -> list[Frames]:
        """Write one DOWN per sid."""
        return [self._smi("DOWN", sid) for sid in self._sids]

    def _smi(self, verb: str, sid: str, **extra: Any) -> Frames:
        if self._concurrency is not None:
            extra["credit"] = self._concurrency
        if self._labels:
            extra["labels"] = self._labels
        address = write_address("SMI", verb, partial=True, polls=True, **extra)
        rid = f"{verb.lower()}-{sid}".encode()
        return encode(ZssMessage(REQ, rid, address, payload=oldpack.encode(sid)))

    # --- messages from the broker -------------------------------------------------------------

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Read one message; unreadable messages are ignored."""
        try:
            m = decode(frames)
        except MalformedMessage:
            return []
        if m.identity is None:
            return [*self._smi_answered(m), Alive()] if m.kind == REP else []
        if m.kind == PRT:
            return self._part(m)
        return self._request(m) if m.kind == REQ else []

    def _smi_answered(self, m: ZssMessage) -> list[WorkerNotice]:
        """Note an accepted sid; repeat the results that the broker still waits for."""
        # UP of a known sid gets 500; its next HEARTBEAT gets 200.
        if m.status == b"200":
            self._accepted.add(m.rid.decode(errors="replace").partition("-")[2])
            self.refusal = ""
        elif m.status == b"500":
            self.refusal = _denial(m)
        extra = _address(m).extra
        recorded, waits = read_names(extra.get("recorded")), read_names(extra.get("open"))
        return [SendNow(frames) for frames in self._unconfirmed.settle(recorded, waits)]

    def _request(self, m: ZssMessage) -> list[WorkerNotice]:
        self._count += 1
        ticket = str(self._count)
        to = _address(m)
        try:
            call = self._codec.read_call(body_of(m))
        except Unmappable as error:
            fault = Answer(fault=Fault(FaultCode.BAD_REQUEST, str(error)))
            return [SendNow(_reply(m, fault))]
        self._requests[ticket] = m
        job = to.extra.get("job")
        name = job if isinstance(job, str) else m.rid.decode(errors="replace")
        client = (m.identity or b"").decode(errors="replace")
        resources = read_names(to.extra.get("resources"))
        return [Assigned(ticket, JobId(name), call, to.sid, client, call.timeout, resources)]

    def _part(self, m: ZssMessage) -> list[WorkerNotice]:
        """Read a part. It belongs to the oldest request with this client and request id."""
        mark = (m.identity, m.rid)
        tickets = (t for t, r in self._requests.items() if (r.identity, r.rid) == mark)
        ticket = next(tickets, None)
        if m.status == b"102":
            result = self._unconfirmed.result_of(mark) or _reply(m, Answer(fault=_MISSING))
            return [] if ticket is not None else [SendNow(result)]
        if ticket is None:
            return []
        if m.status == b"410":
            return [Stop(ticket)]
        request = _address(m).extra.get("request")
        try:
            answer = oldpack.decode(m.payload)
        except ValueError:
            answer = m.payload
        return [InputGiven(ticket, request if isinstance(request, str) else "", answer)]

    # --- messages to the broker ---------------------------------------------------------------

    def take(self, ticket: str) -> list[Frames]:
        """Return no message: ZSS has no confirmation of delivery."""
        return []

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Report progress, if the client reads parts."""
        return self._part_message(ticket, b"102", event)

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream, if the client reads parts."""
        return self._part_message(ticket, b"206", data)

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Ask the client a question."""
        m = self._requests.get(ticket)
        if m is not None and not _reads_parts(m):
            raise Unsupported("this ZSS client reads no parts, so it cannot be asked")
        return self._part_message(ticket, b"100", question, request=request)

    def _part_message(
        self, ticket: str, status: bytes, content: object, **extra: object
    ) -> list[Frames]:
        m = self._requests.get(ticket)
        if m is None or not _reads_parts(m):
            return []
        address = oldpack.encode(address_map(m.address) | extra) if extra else m.address
        payload = oldpack.encode(content)
        return [encode(replace(m, kind=PRT, address=address, status=status, payload=payload))]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        m = self._requests.pop(ticket, None)
        if m is None:
            return []
        frames = _reply(m, answer)
        self._unconfirmed.keep(_job(m), (m.identity, m.rid), frames)
        return [frames]

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job unrun."""
        fault = Fault(FaultCode.HANDED_BACK, "the service returned it unrun")
        return self.finish(ticket, Answer(fault=fault))

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Forward the job: a request to another service with the same client and request id."""
        m = self._requests.pop(ticket, None)
        if m is None:
            return []
        extra = {k: v for k, v in _address(m).extra.items() if k in ("job", "partial")}
        forwarded = call_message(call, service.upper(), m.rid, **extra)
        return [encode(replace(forwarded, identity=m.identity, protocol=m.protocol))]

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Refuse: ZSS has no events."""
        raise Unsupported("ZSS has no events: publish them over NFP")


def _reply(m: ZssMessage, answer: Answer) -> Frames:
    """Write the reply to a request. The address names a fault other than TASK_FAILED."""
    try:
        status, payload = answer_frames(answer)
        check_result_size([payload])
    except Unmappable as error:
        answer = Answer(fault=Fault(error.code, str(error)))
        status, payload = answer_frames(answer)
    reply = replace(m, kind=REP, status=status, payload=payload)
    if answer.fault is not None and answer.fault.code is not FaultCode.TASK_FAILED:
        try:
            named = oldpack.encode(address_map(m.address) | {"fault": answer.fault.code.value})
        except (MalformedMessage, Unmappable):
            # The broker's address is unreadable or has no form here: send it back unchanged.
            return encode(reply)
        reply = replace(reply, address=named)
    return encode(reply)


def _address(m: ZssMessage) -> ZssAddress:
    try:
        return read_address(m.address)
    except MalformedMessage:
        return _NO_ADDRESS


def _job(m: ZssMessage) -> str:
    """Return the job that a request names; empty for a request without one."""
    job = _address(m).extra.get("job")
    return job if isinstance(job, str) else ""


def _reads_parts(m: ZssMessage) -> bool:
    """Return whether the client reads parts, or Dragoman's broker in its place."""
    extra = _address(m).extra
    return extra.get("partial") is True or "job" in extra


def _denial(m: ZssMessage) -> str:
    """Read why SMI refused; empty if it gives no reason, as for a known sid."""
    try:
        content = oldpack.decode(m.payload)
    except ValueError:
        return ""
    is_denied = isinstance(content, dict) and content.get("fault") == FaultCode.DENIED
    return str(content.get("developerMessage", "")) if is_denied else ""
