"""A service's end of ZSS, for the SDK.

It registers as Ruby's services do, in seven frames, and says in the address what upstream's broker
ignores: how much it can hold, and that it reads parts. Its heartbeats say so too, since they
register it again wherever it has been forgotten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    InputGiven,
    SendNow,
    Stop,
    Unsupported,
    WorkerNotice,
)
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

#: The broker answers every heartbeat; so many unanswered ones mean that it is not there.
_BEATS_UNANSWERED: Final = 5
_NOBODY: Final = ZssAddress("")
#: What is said about a request that is not here: it never came, or its reply is on the way or lost.
_MISSING: Final = Fault(FaultCode.HANDED_BACK, "the service does not have it")


class ZssWorkerSide:
    """What one service instance says and hears."""

    def __init__(
        self,
        services: Sequence[str],
        *,
        concurrency: int | None = None,
        beat_every: float = 1.0,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._labels = dict(labels or {})
        #: With a version after `@`, as in `math@1.2.0`, requests may ask for just that one.
        self._sids = [service.upper() for service in services]
        self._concurrency = concurrency
        self.beat_every = beat_every
        self.hold: float | None = beat_every * _BEATS_UNANSWERED
        self._codec = ZssBodyCodec()
        self._requests: dict[str, ZssMessage] = {}
        self._count = 0

    def join(self) -> list[Frames]:
        """Register every sid. One that is registered already is refused, which does no harm."""
        # Said once: with the second sid it may have been given something already.
        holds = {} if self._requests else {"holds": 0}
        first, *others = self._sids
        return [self._smi("UP", first, **holds), *(self._smi("UP", sid) for sid in others)]

    def beat(self) -> list[Frames]:
        """Say "I am alive", once per sid."""
        return [self._smi("HEARTBEAT", sid) for sid in self._sids]

    def leave(self) -> list[Frames]:
        """Say good-bye."""
        return [self._smi("DOWN", sid) for sid in self._sids]

    def _smi(self, verb: str, sid: str, **extra: Any) -> Frames:
        if self._concurrency is not None:
            extra["credit"] = self._concurrency
        if self._labels:
            extra["labels"] = self._labels
        address = write_address("SMI", verb, partial=True, polls=True, **extra)
        rid = f"{verb.lower()}-{sid}".encode()
        return encode(ZssMessage(REQ, rid, address, payload=oldpack.encode(sid)))

    # --- what the broker says -----------------------------------------------------------------

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Take one message in; what cannot be read is ignored."""
        try:
            m = decode(frames)
        except MalformedMessage:
            return []
        if m.identity is None:
            return [Alive()] if m.kind == REP else []
        if m.kind == PRT:
            return self._part(m)
        return self._request(m) if m.kind == REQ else []

    def _request(self, m: ZssMessage) -> list[WorkerNotice]:
        self._count += 1
        ticket = str(self._count)
        to = _address(m)
        try:
            call = self._codec.read_call(body_of(m))
        except Unmappable as trouble:
            fault = Answer(fault=Fault(FaultCode.BAD_REQUEST, str(trouble)))
            return [SendNow(_reply(m, fault))]
        self._requests[ticket] = m
        job = to.extra.get("job")
        name = job if isinstance(job, str) else m.rid.decode(errors="replace")
        client = (m.identity or b"").decode(errors="replace")
        resources = read_names(to.extra.get("resources"))
        return [Assigned(ticket, JobId(name), call, to.sid, client, call.timeout, resources)]

    def _part(self, m: ZssMessage) -> list[WorkerNotice]:
        """Read a word about a request in hand: the oldest one with this client and id."""
        mark = (m.identity, m.rid)
        tickets = (t for t, r in self._requests.items() if (r.identity, r.rid) == mark)
        ticket = next(tickets, None)
        if m.status == b"102":
            return [] if ticket is not None else [SendNow(_reply(m, Answer(fault=_MISSING)))]
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

    # --- what the service says ----------------------------------------------------------------

    def take(self, ticket: str) -> list[Frames]:
        """Say nothing: a request that was delivered is being run."""
        return []

    def progress(self, ticket: str, event: Any) -> list[Frames]:
        """Report on the way, if somebody reads it."""
        return self._say(ticket, b"102", event)

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream, if somebody reads it."""
        return self._say(ticket, b"206", data)

    def ask_input(self, ticket: str, request: str, question: Any) -> list[Frames]:
        """Ask the client something."""
        m = self._requests.get(ticket)
        if m is not None and not _reads_parts(m):
            raise Unsupported("this ZSS client reads no questions")
        return self._say(ticket, b"100", question, request=request)

    def _say(self, ticket: str, status: bytes, said: Any, **extra: Any) -> list[Frames]:
        m = self._requests.get(ticket)
        if m is None or not _reads_parts(m):
            return []
        address = oldpack.encode(address_map(m.address) | extra) if extra else m.address
        payload = oldpack.encode(said)
        return [encode(replace(m, kind=PRT, address=address, status=status, payload=payload))]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        m = self._requests.pop(ticket, None)
        return [_reply(m, answer)] if m is not None else []

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job unrun."""
        fault = Fault(FaultCode.HANDED_BACK, "the service returned it unrun")
        return self.finish(ticket, Answer(fault=fault))

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Pass the job on: ask another service in the name of the client, with the same id."""
        m = self._requests.pop(ticket, None)
        if m is None:
            return []
        extra = {k: v for k, v in _address(m).extra.items() if k in ("job", "partial")}
        passed = call_message(call, service.upper(), m.rid, **extra)
        return [encode(replace(passed, identity=m.identity, protocol=m.protocol))]

    def publish(self, topic: str, event: Any) -> list[Frames]:
        """Refuse: ZSS has no events."""
        raise Unsupported("ZSS has no events: publish them over NFP")


def _reply(m: ZssMessage, answer: Answer) -> Frames:
    """Write the reply to a request; a fault is also named beside the address."""
    try:
        status, payload = answer_frames(answer)
    except Unmappable as trouble:
        answer = Answer(fault=Fault(FaultCode.UNMAPPABLE, str(trouble)))
        status, payload = answer_frames(answer)
    reply = replace(m, kind=REP, status=status, payload=payload)
    if answer.fault is not None and answer.fault.code is not FaultCode.TASK_FAILED:
        try:
            named = oldpack.encode(address_map(m.address) | {"fault": answer.fault.code.value})
        except (MalformedMessage, Unmappable):
            # A broker may write there what it likes.
            return encode(reply)
        reply = replace(reply, address=named)
    return encode(reply)


def _address(m: ZssMessage) -> ZssAddress:
    try:
        return read_address(m.address)
    except MalformedMessage:
        return _NOBODY


def _reads_parts(m: ZssMessage) -> bool:
    """Whether the client, or a broker of ours on behalf of one, reads parts."""
    extra = _address(m).extra
    return extra.get("partial") is True or "job" in extra
