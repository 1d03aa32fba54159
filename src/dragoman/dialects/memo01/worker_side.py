"""A worker's end of memo01, for the SDK.

A memo01 worker runs one job at a time. So a worker with several *slots* is several memo01 workers
on one connection, each with its own ID from the broker and one open request. The first frame of
each message is its slot: the transport puts it before the answer and does not send it.

A slot sends only if it has no open request: a second request would leave the first one parked at
the broker, and its answer unread. So `DISCONNECT` restarts only the slot that got it.
"""

from collections.abc import Mapping
from typing import Final, NoReturn

from dragoman.dialects.base import Frames, MalformedMessage, check_result_size
from dragoman.dialects.memo01.body_codec import (
    NAME,
    RESOURCES,
    TAG,
    MemoBodyCodec,
    is_cbor,
    tagged,
    untagged,
    write_fault,
)
from dragoman.dialects.memo01.labels import write_labels
from dragoman.dialects.memo01.settings import MemoSettings
from dragoman.dialects.memo01.wire import (
    MemoDisconnect,
    MemoHeartbeat,
    MemoJob,
    MemoMessage,
    MemoReady,
    MemoResult,
    decode,
    encode,
    in_order,
)
from dragoman.dialects.peer_sides import Alive, Assigned, SendNow, Unsupported, WorkerNotice
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId
from dragoman.model.target import resources_of

_HANDED_BACK: Final = Fault(FaultCode.HANDED_BACK, "returned unrun")


#: Most beats between two READYs of a refused slot.
_MOST_BEATS: Final = 16
#: memo01 has no field for a reason.
_REFUSAL: Final = (
    "the broker disconnects this worker: its key may have no right to register; "
    "the broker's `denied` records have the reason"
)


class _WorkerSlot:
    """One memo01 worker: its name in this process, its ID at the broker, its job."""

    __slots__ = ("beats_to_wait", "id", "is_open", "is_tagged", "name", "refusals", "ticket")

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = b""
        #: Whether a request is open: the broker sends the next message.
        self.is_open = False
        self.ticket = ""
        #: Whether the job's payload has the tag; then its caller reads tagged results.
        self.is_tagged = False
        #: READYs in a row that got DISCONNECT, and beats until the next READY.
        self.refusals = 0
        self.beats_to_wait = 0

    def refuse(self) -> None:
        """Wait one beat, then two, four and so on."""
        self.beats_to_wait = min(2**self.refusals, _MOST_BEATS)
        self.refusals += 1


class MemoWorkerSide:
    """One worker; all its slots offer the same services."""

    beat_every = MemoSettings().beat_every
    #: A busy slot gets no message while its job runs, so silence does not mean a lost broker.
    hold: float | None = None

    def __init__(
        self,
        services: tuple[str, ...],
        slots: int = 1,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._ready = encode(MemoReady(in_order((*services, *write_labels(labels or {})))))
        self._slots = {str(n): _WorkerSlot(str(n)) for n in range(slots)}
        self._busy: dict[str, _WorkerSlot] = {}
        self._codec = MemoBodyCodec()
        self._is_leaving = False
        self._jobs = 0
        #: Why the broker probably refused the registration; empty if it did not.
        self.refusal = ""
        #: Whether the broker has answered a READY.
        self.is_joined = False

    def join(self) -> list[Frames]:
        """Send READY on every idle slot; busy slots send their result."""
        self._is_leaving = self.is_joined = False
        idle = [s for s in self._slots.values() if not s.ticket]
        return [self._request(slot, self._ready) for slot in idle]

    def _request(self, slot: _WorkerSlot, message: bytes) -> Frames:
        slot.is_open = True
        return [slot.name.encode(), message]

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Read one answer."""
        slot = self._slots.get(bytes(frames[0]).decode(errors="replace")) if frames else None
        if slot is None or not slot.is_open:
            return []
        slot.is_open = False
        message = _read(frames[1]) if len(frames) == 2 else None
        self.is_joined |= isinstance(message, MemoJob | MemoHeartbeat)
        if isinstance(message, MemoJob):
            return self._work(slot, message)
        if isinstance(message, MemoHeartbeat):
            self._registered(slot, message.id)
            return [Alive(), SendNow(self._request(slot, encode(MemoHeartbeat(slot.id))))]
        if isinstance(message, MemoDisconnect):
            return self._disconnected(slot)
        # No answer, or an unreadable one: register the slot again.
        return [] if self._is_leaving else [SendNow(self._request(slot, self._ready))]

    def _disconnected(self, slot: _WorkerSlot) -> list[WorkerNotice]:
        """Register a dropped slot again at once; a refused one waits for `beat`."""
        was_registered, slot.id = bool(slot.id), b""
        if was_registered and not self._is_leaving:
            return [SendNow(self._request(slot, self._ready))]
        self.refusal = _REFUSAL
        slot.refuse()
        return []

    def _registered(self, slot: _WorkerSlot, id_: bytes) -> None:
        slot.id, slot.refusals, slot.beats_to_wait = id_, 0, 0
        self.refusal = ""

    def _work(self, slot: _WorkerSlot, job: MemoJob) -> list[WorkerNotice]:
        self._registered(slot, job.id)
        self._jobs += 1
        slot.ticket = f"{slot.name}.{self._jobs}"
        slot.is_tagged = job.payload.startswith(TAG)
        self._busy[slot.ticket] = slot
        if self._is_leaving:
            return [SendNow(f) for f in self.hand_back(slot.ticket)]
        try:
            call = self._codec.read_call(Body(NAME, (job.payload,)))
        except Unmappable as error:
            fault = Fault(FaultCode.BAD_REQUEST, str(error))
            return [SendNow(f) for f in self.finish(slot.ticket, Answer(fault=fault))]
        timeout = job.timeout_ms / 1000
        resources = resources_of(call.headers.get(RESOURCES, ""))
        return [
            Assigned(slot.ticket, JobId(slot.ticket), call, job.service, "", timeout, resources)
        ]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result; if the worker is leaving, with the flag that says so."""
        slot = self._busy.pop(ticket, None)
        if slot is None:
            return []
        slot.ticket = ""
        result = MemoResult(slot.id, self._payload(slot, answer), self._is_leaving)
        return [self._request(slot, encode(result))]

    def _payload(self, slot: _WorkerSlot, answer: Answer) -> bytes:
        """Write a result, with the tag only if the caller used it; or a fault for our broker."""
        if answer.fault is not None:
            return write_fault(answer.fault)
        try:
            payload = b"".join(self._codec.write_answer(answer).parts)
            if slot.is_tagged and answer.raw is not None and is_cbor(payload):
                # The broker takes an untagged answer to a call for a CBOR value.
                payload = tagged(answer.raw)
            check_result_size([payload], MemoSettings().payload_limit)
        except Unmappable as error:
            return write_fault(Fault(error.code, str(error)))
        return payload if slot.is_tagged or answer.raw is not None else untagged(payload)

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job unrun; the broker gives it to another worker."""
        return self.finish(ticket, Answer(fault=_HANDED_BACK))

    def leave(self) -> list[Frames]:
        """Take no more jobs: busy slots leave with their result, others with the connection."""
        self._is_leaving = True
        return []

    def take(self, ticket: str) -> list[Frames]:
        """Return no message: memo01 has no confirmation of delivery."""
        return []

    def beat(self) -> list[Frames]:
        """Register refused slots whose pause is over. Others only answer the broker."""
        if self._is_leaving:
            return []
        waiting = [slot for slot in self._slots.values() if slot.beats_to_wait]
        for slot in waiting:
            slot.beats_to_wait -= 1
        return [self._request(slot, self._ready) for slot in waiting if not slot.beats_to_wait]

    # --- not in memo01 ------------------------------------------------------------------------

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Refuse: there is nothing between a job and its result."""
        _unsupported("progress reports", "log them, or return them with the result")

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Refuse: a result comes in one piece."""
        _unsupported("streams", "return the whole result")

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Refuse: a client cannot be asked."""
        _unsupported("questions to the client", "take everything from the request")

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Refuse: a job stays with its service."""
        _unsupported("forwarding", "call the other service as a client")

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Refuse: there are no events."""
        _unsupported("events", "use an nfp:// worker")


def _read(message: bytes) -> MemoMessage | None:
    try:
        return decode(message)
    except MalformedMessage:
        return None


def _unsupported(what: str, instead: str) -> NoReturn:
    raise Unsupported(f"memo has no {what}; {instead}")
