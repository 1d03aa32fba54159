"""The broker's end of memo01: requests become events, effects become the answers to requests.

What lives here: who may say what when, worker IDs, parked requests, which job a RESULT belongs to,
heartbeats. What must not: which worker gets a job and what becomes of it (the core's business).

Silence is this protocol's only "no". Whatever is not answered here is on record: malformed
messages are raised for the loop to note, refused ones are `Noted`, faults are the core's records.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from math import ceil
from typing import Any, Final

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendReply, SendWork
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    JobSubmitted,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import (
    Address,
    Frames,
    MalformedMessage,
    Send,
    Wardrobe,
    redress_answer,
    redress_call,
)
from dragoman.dialects.memo01.dress import NAME, TAG, as_value, fault_in, untagged
from dragoman.dialects.memo01.recollection import Recollection, key_in, name_job
from dragoman.dialects.memo01.requests import (
    CONNECTION,
    Request,
    Requests,
    connection_of,
    key_of,
)
from dragoman.dialects.memo01.settings import LONGEST_TIMEOUT_MS, Settings
from dragoman.dialects.memo01.wire import (
    Disconnect,
    Heartbeat,
    Job,
    Ready,
    Result,
    decode,
    encode,
)
from dragoman.dialects.memo01.workers import Slot, Worker, Workers
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    EVERY_SERVICE,
    JobId,
    PeerId,
    ServiceName,
    WorkerName,
    name_of,
    peer_id,
)
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms, read_terms

#: After its time is over a worker is kept this long, so that the core ends the job first.
_LATE: Final = 1.0
#: Workers dropped lately whose late results can still be put on record.
_DROPPED: Final = 10_000

Outcome = list[Event | Send]
LoadBody = Callable[[int], Body | None]


class BrokerSide:
    """All peers of one memo01 link."""

    def __init__(
        self,
        ids: Callable[[], str],
        wardrobe: Wardrobe,
        settings: Settings | None = None,
        link: str = NAME,
    ) -> None:
        self.link = link
        self._ids = ids
        #: Names this process, so that its jobs need only be counted.
        self._run = blake2b(ids().encode(), digest_size=4).hexdigest()
        self._jobs = count(1)
        self._wardrobe = wardrobe
        self._settings = settings or Settings()
        self._workers = Workers()
        self._requests = Requests(self._settings.resend_window, self._settings.remembered)
        #: ID -> what a worker that was dropped in mid-job, or that an earlier process knew, held.
        self._dropped: dict[bytes, tuple[PeerId, JobId, int]] = {}
        #: Requests that were repeated while they were open or just answered.
        self.resends = 0

    def restore(self, records: Iterable[Record], load_body: LoadBody, now: float) -> None:
        """Know again the requests and assignments of an earlier process, from its records."""
        past = Recollection(self.link, records, now - self._settings.resend_window)
        for submitted in past.open.values():
            self._recall(submitted, load_body)
        for submitted, at in past.answered.values():
            self._requests.answered(self._recall(submitted, load_body), at)
        for held in past.held():
            id_ = bytes.fromhex(name_of(PeerId(held.peer)))
            self._dropped[id_] = (PeerId(held.peer), JobId(held.job), held.attempt)

    def _recall(self, submitted: Record, load_body: LoadBody) -> Request:
        body = load_body(submitted.seq)
        run_timeout = read_terms(submitted.terms).run_timeout
        timeout_ms = round(run_timeout * 1000) if run_timeout else LONGEST_TIMEOUT_MS
        is_tagged = body is not None and b"".join(body.parts).startswith(TAG)
        key, client = key_in(submitted.job), PeerId(submitted.client)
        assert key is not None
        request = Request(key, JobId(submitted.job), client, timeout_ms, is_tagged)
        self._requests.open(request)
        return request

    def speaker(self, address: Address) -> str:
        """Name whoever speaks from an address: clients have no name, so their connection does."""
        return "c" + connection_of(address).hex()

    # --- what peers say -----------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> Outcome:
        """Take one message in; no frames at all mean that the connection has ended."""
        if not frames:
            return self._connection_ended(address[:CONNECTION], now)
        if len(frames) != 1 or len(address) <= CONNECTION:
            raise MalformedMessage("a memo01 message is one frame")
        message = decode(frames[0])
        self._workers.hear(connection_of(address))
        return _RECEIVERS[type(message)](self, address, message, frames[0], now)

    def _ready(self, address: Address, ready: Ready, raw: bytes, now: float) -> Outcome:
        if self._workers.has_ready(address):
            self.resends += 1
            return []
        if len(self._workers) >= self._settings.max_workers:
            return [self._refused(address, f"more than {self._settings.max_workers} workers")]
        id_ = self._new_id()
        worker = Worker(id_, peer_id(self.link, id_.hex()), address)
        self._workers.add(worker)
        joined = WorkerJoined(
            worker.peer,
            WorkerName(f"{self.link}-{id_.hex()}"),
            tuple(map(ServiceName, ready.services)),
            credit=1,
            dialect=NAME,
        )
        return [joined, *self._park(worker, address, now)]

    def _new_id(self) -> bytes:
        """Make an ID that nobody has and nobody guesses (if `ids` cannot be guessed)."""
        while True:
            id_ = blake2b(self._ids().encode(), digest_size=8).digest()
            if id_ not in self._workers.by_id:
                return id_

    def _heartbeat(self, address: Address, beat: Heartbeat, raw: bytes, now: float) -> Outcome:
        worker = self._workers.by_id.get(beat.id)
        if worker is None:
            return [*self._unknown(address, beat.id)]
        if self._is_resend(worker, address):
            return []
        if worker.slot is not Slot.BEATEN:
            return self._out_of_sync(worker, address, "HEARTBEAT")
        return [BeatReceived(worker.peer), *self._park(worker, address, now)]

    def _result(self, address: Address, result: Result, raw: bytes, now: float) -> Outcome:
        if not result.id:
            raise MalformedMessage("a worker's RESULT has its ID")
        worker = self._workers.by_id.get(result.id)
        if worker is None:
            return [*self._late(result), *self._unknown(address, result.id)]
        if self._is_resend(worker, address):
            return []
        if worker.slot is not Slot.BUSY or worker.job is None:
            return self._out_of_sync(worker, address, "RESULT")
        reply = self._reply(worker, result)
        if worker.run_until is not None and now > worker.run_until:
            return [reply, *self._out_of_sync(worker, address, "RESULT after its time")]
        worker.job, worker.run_until = None, None
        if result.is_leaving:
            self._workers.drop(worker)
            bye = Send(address, [encode(Disconnect(worker.id))])
            return [reply, PeerLeft(worker.peer, "left with its last result"), bye]
        return [reply, CreditGranted(worker.peer), *self._park(worker, address, now)]

    def _reply(self, worker: Worker, result: Result) -> ReplyReceived:
        assert worker.job is not None
        payload = result.payload
        fault = fault_in(payload)
        if len(payload) > self._settings.payload_limit:
            fault = Fault(FaultCode.TOO_LARGE, f"a result of {len(payload)} bytes")
            payload = b""
        elif worker.is_dressed:
            payload = as_value(payload)
        body = Body(NAME, (payload,))
        return ReplyReceived(worker.peer, worker.job, ReplyKind.FINAL, body, fault, worker.attempt)

    def _late(self, result: Result) -> Outcome:
        """Hand the core a result that came after its worker was given up, for the record."""
        held = self._dropped.pop(result.id, None)
        if held is None or len(result.payload) > self._settings.payload_limit:
            return []
        peer, job, attempt = held
        body = Body(NAME, (result.payload,))
        return [ReplyReceived(peer, job, ReplyKind.FINAL, body, None, attempt)]

    def _disconnect(self, address: Address, bye: Disconnect, raw: bytes, now: float) -> Outcome:
        raise MalformedMessage("DISCONNECT is for the broker to say")

    def _job(self, address: Address, job: Job, raw: bytes, now: float) -> Outcome:
        if job.id:
            raise MalformedMessage("a client's JOB has an empty ID")
        key = key_of(address, raw)
        known = self._requests.find_resent(key, address, self._workers.live)
        client = peer_id(self.link, self.speaker(address))
        if known is not None:
            return self._resent(known, address, job, client)
        why_not = self._why_not(job)
        if why_not:
            return [self._refused(address, why_not, ServiceName(job.service))]
        timeout_ms = min(job.timeout_ms, self._settings.longest_timeout_ms)
        is_tagged = job.payload.startswith(TAG)
        job_id = name_job(key, f"{self._run}{next(self._jobs):x}")
        request = Request(key, job_id, client, timeout_ms, is_tagged)
        self._requests.open(request, address)
        return [self._submitted(request, job, client)]

    def _why_not(self, job: Job) -> str:
        """Say why a JOB is refused; nothing when it is not."""
        if job.timeout_ms <= 0:
            return f"a timeout of {job.timeout_ms} ms leaves no time to run"
        if len(job.payload) > self._settings.payload_limit:
            limit = self._settings.payload_limit
            return f"a payload of {len(job.payload)} bytes; {limit} are allowed"
        if job.service == EVERY_SERVICE:
            return "the service name 'all' is reserved"
        return ""

    def _resent(self, request: Request, address: Address, job: Job, client: PeerId) -> Outcome:
        """Let one more address wait for an answer; ask for it again if it was already given."""
        self.resends += 1
        if address not in request.addresses:
            live = self._workers.live
            request.addresses = [a for a in request.addresses if connection_of(a) in live]
            request.addresses.append(address)
        if request.forget_at is None:
            return []
        return [self._submitted(request, job, client)]

    def _submitted(self, request: Request, job: Job, client: PeerId) -> JobSubmitted:
        settings = self._settings
        terms = _terms(
            request.timeout_ms,
            settings.queue_timeout,
            settings.max_attempts,
            settings.strict,
            job.service in settings.memoized,
        )
        body = Body(NAME, (job.payload,))
        return JobSubmitted(request.job, client, ServiceName(job.service), body, terms=terms)

    # --- slots --------------------------------------------------------------------------------

    def _park(self, worker: Worker, address: Address, now: float) -> list[Send]:
        """Let a request wait for a message, or answer it with the one that waits."""
        self._workers.move(worker, address)
        worker.slot, worker.address = Slot.PARKED, address
        if worker.pending is None:
            self._workers.set_due(worker, now + self._settings.beat_every)
            return []
        message, worker.pending = worker.pending, None
        return [self._answer(worker, message, Slot.BUSY, worker.run_until)]

    def _answer(self, worker: Worker, message: bytes, slot: Slot, due_at: float | None) -> Send:
        """Answer a parked request."""
        address = worker.address
        assert address is not None
        worker.address, worker.answered, worker.slot = None, address, slot
        late = _LATE if slot is Slot.BUSY else 0.0
        self._workers.set_due(worker, None if due_at is None else due_at + late)
        return Send(address, [message])

    def _is_resend(self, worker: Worker, address: Address) -> bool:
        """Whether a request is open already, or a copy that crossed with its answer."""
        if address != worker.address and address != worker.answered:
            return False
        self.resends += 1
        return True

    def _unknown(self, address: Address, id_: bytes) -> list[Send]:
        return [Send(address, [encode(Disconnect(id_))])]

    def _out_of_sync(self, worker: Worker, address: Address, said: str) -> Outcome:
        """Drop a worker that says what its slot does not allow."""
        left = self._lose(worker, f"out of sync: {said} while {worker.slot.value}")
        return [left, Send(address, [encode(Disconnect(worker.id))])]

    def _lose(self, worker: Worker, reason: str) -> PeerLeft:
        self._workers.drop(worker)
        if worker.job is not None and worker.pending is None:
            self._dropped[worker.id] = (worker.peer, worker.job, worker.attempt)
            if len(self._dropped) > _DROPPED:
                del self._dropped[next(iter(self._dropped))]
        return PeerLeft(worker.peer, reason)

    def _connection_ended(self, connection: bytes, now: float) -> Outcome:
        """Drop the workers that were parked there; the others may come back on another."""
        left: Outcome = []
        until = now + self._settings.reconnect_grace
        for worker in self._workers.end_connection(connection):
            if worker.slot is Slot.PARKED:
                left.append(self._lose(worker, "its connection ended"))
            elif worker.due_at is None or worker.due_at > until:
                self._workers.set_due(worker, until)
        return left

    def _refused(self, address: Address, detail: str, service: ServiceName | None = None) -> Noted:
        peer = peer_id(self.link, self.speaker(address))
        return Noted(Kind.REFUSED, peer, detail, service=service, dialect=NAME)

    # --- what the broker says -----------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect into messages; what memo01 cannot say is not said."""
        write = _WRITERS.get(type(effect))
        return write(self, effect, now) if write else []

    def _send_work(self, work: SendWork, now: float) -> list[Send]:
        worker = self._workers.of_peer(work.worker)
        if worker is None:
            return []
        body = redress_call(self._wardrobe, work.body, NAME) if work.body.parts else work.body
        payload = b"".join(body.parts)
        worker.is_dressed = work.body.dialect != NAME and payload.startswith(TAG)
        worker.job, worker.attempt, worker.run_until = work.job, work.attempt, work.run_until
        message = encode(Job(worker.id, work.service, self._time_left(work, now), payload))
        if worker.slot is Slot.PARKED:
            return [self._answer(worker, message, Slot.BUSY, work.run_until)]
        worker.pending = message
        return []

    def _time_left(self, work: SendWork, now: float) -> int:
        """Tell a worker how long it has: what the client said, or what is left of it."""
        request = self._requests.of_job(work.job)
        if request is not None:
            return request.timeout_ms
        if work.run_until is None:
            return LONGEST_TIMEOUT_MS
        return min(max(1, ceil((work.run_until - now) * 1000 - 0.5)), LONGEST_TIMEOUT_MS)

    def _send_reply(self, reply: SendReply, now: float) -> list[Send]:
        """Answer a client's request; a job that failed leaves it unanswered, as the text says."""
        request = self._requests.of_job(reply.job)
        if reply.kind is not ReplyKind.FINAL or request is None:
            return []
        if reply.fault is not None:
            self._requests.forget(request)
            return []
        try:
            message = encode(Result(b"", self._answer_to(request, reply)))
        except Unmappable:
            self._requests.forget(request)
            raise
        self._requests.answered(request, now)
        live = self._workers.live
        return [Send(a, [message]) for a in request.addresses if connection_of(a) in live]

    def _answer_to(self, request: Request, reply: SendReply) -> bytes:
        """Dress a result as its client can read it."""
        if reply.body.dialect == NAME or not reply.body.parts:
            # No parts at all: an empty result, as the core and the records keep it.
            return b"".join(reply.body.parts)
        body = redress_answer(self._wardrobe, reply.body, NAME, reply.worker)
        payload = b"".join(body.parts)
        return payload if request.is_tagged else untagged(payload)

    def _send_beat(self, beat: SendBeat, now: float) -> list[Send]:
        worker = self._workers.of_peer(beat.worker)
        if worker is None or worker.slot is not Slot.PARKED:
            return []
        return [self._beat(worker, now)]

    def _beat(self, worker: Worker, now: float) -> Send:
        due_at = now + self._settings.beat_answer
        return self._answer(worker, encode(Heartbeat(worker.id)), Slot.BEATEN, due_at)

    def _dismiss(self, dismiss: Dismiss, now: float) -> list[Send]:
        """Tell a parked worker at once; another one hears it with its next message."""
        worker = self._workers.of_peer(dismiss.peer)
        if worker is None:
            return []
        self._lose(worker, dismiss.reason)
        if worker.address is None:
            return []
        return [Send(worker.address, [encode(Disconnect(worker.id))])]

    # --- timers -------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When a heartbeat, its answer or a result may be due."""
        return self._workers.next_due()

    def advance(self, now: float) -> Outcome:
        """Send the heartbeats that are due; drop the workers whose answers are overdue."""
        out: Outcome = []
        while (worker := self._workers.pop_due(now)) is not None:
            if worker.slot is Slot.PARKED:
                out.append(self._beat(worker, now))
            else:
                out.append(self._lose(worker, self._why_lost(worker)))
        return out

    def _why_lost(self, worker: Worker) -> str:
        if worker.connection is None:
            return "its connection ended and it did not come back"
        if worker.slot is Slot.BEATEN:
            return "it did not answer a HEARTBEAT"
        return "it did not send a RESULT in time"


@lru_cache(maxsize=1024)
def _terms(
    timeout_ms: int, queue_timeout: float, max_attempts: int, strict: bool, memoize: bool
) -> Terms:
    """State a JOB's policy; a client's jobs mostly have the same."""
    return Terms(
        patience=queue_timeout,
        queue_timeout=queue_timeout,
        run_timeout=timeout_ms / 1000,
        max_attempts=max_attempts,
        strict=strict,
        memoize=memoize,
    )


_RECEIVERS: Final[dict[type, Callable[[BrokerSide, Address, Any, bytes, float], Outcome]]] = {
    Ready: BrokerSide._ready,
    Job: BrokerSide._job,
    Result: BrokerSide._result,
    Heartbeat: BrokerSide._heartbeat,
    Disconnect: BrokerSide._disconnect,
}
_WRITERS: Final[dict[type, Callable[[BrokerSide, Any, float], list[Send]]]] = {
    SendWork: BrokerSide._send_work,
    SendReply: BrokerSide._send_reply,
    SendBeat: BrokerSide._send_beat,
    Dismiss: BrokerSide._dismiss,
}
