"""The broker's end of memo01: requests become events, effects become the answers to requests.

What lives here: who may say what when, worker IDs, parked requests, which job a RESULT belongs to,
heartbeats. What must not: which worker gets a job and what becomes of it (the core's business).

Silence is this protocol's only "no". Whatever is not answered here is on record: malformed
messages are raised for the loop to note, refused ones are `Noted`, faults are the core's records.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from math import ceil
from typing import Any, Final

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendReply, SendWork
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
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
    redress_call,
)
from dragoman.dialects.memo01.client_desk import ClientDesk, LoadBody, refusal, speaker_at
from dragoman.dialects.memo01.dress import NAME, RESOURCES, TAG, as_value, fault_in
from dragoman.dialects.memo01.labels import read_labels
from dragoman.dialects.memo01.recollection import Recollection
from dragoman.dialects.memo01.requests import (
    CONNECTION,
    connection_of,
    has_same_id,
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
from dragoman.dialects.memo01.workers import Held, Slot, Worker, Workers
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    JobId,
    PeerId,
    ServiceName,
    WorkerName,
    name_of,
    peer_id,
)
from dragoman.model.record import Record
from dragoman.model.target import resources_of

#: After its time is over a worker is kept this long, so that the core ends the job first.
_LATE: Final = 1.0
#: Workers dropped lately whose late results can still be put on record.
_DROPPED: Final = 10_000

Outcome = list[Event | Send]


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
        self._wardrobe = wardrobe
        self._settings = settings or Settings()
        self._workers = Workers()
        self._clients = ClientDesk(link, ids(), wardrobe, self._settings, self._workers.live)
        #: ID -> what a worker that was dropped in mid-job, or that an earlier process knew, held.
        self._dropped: dict[bytes, Held] = {}
        self._resends = 0

    @property
    def resends(self) -> int:
        """How many requests were repeated while they were open or just answered."""
        return self._resends + self._clients.resends

    def restore(self, records: Iterable[Record], load_body: LoadBody, now: float) -> None:
        """Know again the requests and assignments of an earlier process, from its records."""
        past = Recollection(self.link, records, now - self._settings.resend_window)
        self._clients.restore(past, load_body)
        for held in past.held():
            peer, seq = PeerId(held.peer), past.last_result(held.peer)
            body = load_body(seq) if seq is not None else None
            before = b"".join(body.parts) if body else None
            known = Held(peer, JobId(held.job), held.attempt, before=before)
            self._dropped[bytes.fromhex(name_of(peer))] = known

    def speaker(self, address: Address) -> str:
        """Name whoever speaks from an address: clients have no name, so their connection does."""
        return speaker_at(address)

    def speaks_as(self, address: Address, frames: Frames) -> str:
        """Name the worker whose ID a message has, the first sender of a request, or a connection.

        A resend gets the answer to what was sent first, so it must come from the same hands.
        """
        try:
            message = decode(frames[0])
        except MalformedMessage:
            return speaker_at(address)
        if isinstance(message, Job) and not message.id:
            return self._clients.speaks_as(address, frames[0])
        id_: bytes = getattr(message, "id", b"")
        return id_.hex() if id_ in self._workers.by_id else speaker_at(address)

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Tell whoever uses another worker's ID that it is not known here; clients hear nothing."""
        if sends is not None:
            return sends
        id_ = getattr(decode(frames[0]), "id", b"")
        return self._unknown(address, id_) if id_ else []

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
            self._resends += 1
            return []
        if len(self._workers) >= self._settings.max_workers:
            return [refusal(self.link, address, f"more than {len(self._workers)} workers")]
        id_ = self._new_id()
        worker = Worker(id_, peer_id(self.link, id_.hex()), address)
        self._workers.add(worker)
        services, labels = read_labels(ready.services)
        joined = WorkerJoined(
            worker.peer,
            WorkerName(f"{self.link}-{id_.hex()}"),
            tuple(map(ServiceName, services)),
            credit=1,
            labels=labels,
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
        again = self._resent_by(worker, address, now)
        if again is not None:
            return [*again]
        if worker.slot is not Slot.BEATEN:
            return self._out_of_sync(worker, address, "HEARTBEAT")
        return [BeatReceived(worker.peer), *self._park(worker, address, now)]

    def _result(self, address: Address, result: Result, raw: bytes, now: float) -> Outcome:
        if not result.id:
            raise MalformedMessage("a worker's RESULT has its ID")
        worker = self._workers.by_id.get(result.id)
        if worker is None:
            return [*self._late(address, result), *self._unknown(address, result.id)]
        again = self._resent_by(worker, address, now)
        if again is not None:
            return [*again]
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

    def _late(self, address: Address, result: Result) -> Outcome:
        """Hand the core a result whose worker was given up, or was known to an earlier process."""
        held = self._dropped.get(result.id)
        if held is None or held.is_of_an_earlier_job(address, result.payload):
            return []
        del self._dropped[result.id]
        if len(result.payload) > self._settings.payload_limit:
            return []
        fault, body = fault_in(result.payload), Body(NAME, (result.payload,))
        return [ReplyReceived(held.peer, held.job, ReplyKind.FINAL, body, fault, held.attempt)]

    def _disconnect(self, address: Address, bye: Disconnect, raw: bytes, now: float) -> Outcome:
        raise MalformedMessage("DISCONNECT is for the broker to say")

    def _job(self, address: Address, job: Job, raw: bytes, now: float) -> Outcome:
        return [*self._clients.receive(address, job, raw, now)]

    # --- slots --------------------------------------------------------------------------------

    def _park(self, worker: Worker, address: Address, now: float) -> list[Send]:
        """Let a request wait for a message, or answer it with the one that waits."""
        self._workers.move(worker, address)
        worker.slot, worker.address, worker.said = Slot.PARKED, address, b""
        if worker.pending is None:
            self._workers.set_due(worker, now + self._settings.beat_every)
            return []
        message, worker.pending = worker.pending, None
        return [self._answer(worker, message, Slot.BUSY, worker.run_until)]

    def _answer(self, worker: Worker, message: bytes, slot: Slot, since: float | None) -> Send:
        """Answer a parked request; its worker's next one is due some time after `since`."""
        address = worker.address
        assert address is not None
        worker.address, worker.answered, worker.slot = None, address, slot
        worker.said = message
        late = _LATE if slot is Slot.BUSY else self._settings.beat_answer
        self._workers.set_due(worker, None if since is None else since + late)
        return Send(address, [message])

    def _resent_by(self, worker: Worker, address: Address, now: float) -> list[Send] | None:
        """Deal with a request that was heard before; None when it is a new one.

        On the same connection it is open already, or crossed with its answer. On another one its
        worker has reconnected: then an answer that was given is lost, and is given again, unless
        the worker has shown by a later request that it had it.
        """
        if worker.address is not None and has_same_id(worker.address, address):
            self._workers.move(worker, address)
            worker.address = address
        elif worker.answered is None or not has_same_id(worker.answered, address):
            return None
        elif worker.answered != address and worker.slot is not Slot.PARKED:
            self._resends += 1
            self._workers.move(worker, address)
            worker.address = address
            since = worker.run_until if worker.slot is Slot.BUSY else now
            return [self._answer(worker, worker.said, worker.slot, since)]
        self._resends += 1
        return []

    def _unknown(self, address: Address, id_: bytes) -> list[Send]:
        return [Send(address, [encode(Disconnect(id_))])]

    def _out_of_sync(self, worker: Worker, address: Address, said: str) -> Outcome:
        """Drop a worker that says what its slot does not allow."""
        left = self._lose(worker, f"out of sync: {said} while {worker.slot.value}")
        return [left, Send(address, [encode(Disconnect(worker.id))])]

    def _lose(self, worker: Worker, reason: str) -> PeerLeft:
        self._workers.drop(worker)
        if worker.job is not None and worker.pending is None:
            self._dropped[worker.id] = Held(
                worker.peer, worker.job, worker.attempt, worker.answered
            )
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

    # --- what the broker says -----------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect into messages; what memo01 cannot say is not said."""
        write = _WRITERS.get(type(effect))
        return write(self, effect, now) if write else []

    def _send_work(self, work: SendWork, now: float) -> list[Send]:
        worker = self._workers.of_peer(work.worker)
        if worker is None:
            return []
        headers = {RESOURCES: work.target} if resources_of(work.target) else None
        body = work.body
        if body.parts:
            body = redress_call(self._wardrobe, body, NAME, headers)
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
        said = self._clients.timeout_said(work.job)
        if said is not None:
            return said
        if work.run_until is None:
            return LONGEST_TIMEOUT_MS
        return min(max(1, ceil((work.run_until - now) * 1000 - 0.5)), LONGEST_TIMEOUT_MS)

    def _send_reply(self, reply: SendReply, now: float) -> list[Send]:
        return self._clients.render(reply, now)

    def _send_beat(self, beat: SendBeat, now: float) -> list[Send]:
        worker = self._workers.of_peer(beat.worker)
        if worker is None or worker.slot is not Slot.PARKED:
            return []
        return [self._beat(worker, now)]

    def _beat(self, worker: Worker, now: float) -> Send:
        return self._answer(worker, encode(Heartbeat(worker.id)), Slot.BEATEN, now)

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
