"""The workers of a memo01 link: their messages become events, jobs and heartbeats become answers.

This module keeps worker IDs and parking slots, matches a RESULT to its job, sends heartbeats and
drops lost workers. The core decides which worker gets a job and what follows from its result.
"""

from collections.abc import Callable
from hashlib import blake2b
from math import ceil
from typing import Final

from dragoman.core.effects import Dismiss, LinkPast, SendBeat, SendWork
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import Address, BodyCodecs, MalformedMessage, Send, convert_call
from dragoman.dialects.memo01.body_codec import NAME, RESOURCES, TAG, as_value, fault_in
from dragoman.dialects.memo01.client_handler import refusal
from dragoman.dialects.memo01.labels import read_labels
from dragoman.dialects.memo01.late_results import LateResults
from dragoman.dialects.memo01.request_recovery import LoadBody
from dragoman.dialects.memo01.requests import has_same_id, number_of
from dragoman.dialects.memo01.settings import LONGEST_TIMEOUT_MS, MemoSettings
from dragoman.dialects.memo01.wire import (
    MemoDisconnect,
    MemoHeartbeat,
    MemoJob,
    MemoReady,
    MemoResult,
    encode,
)
from dragoman.dialects.memo01.workers import MemoWorker, MemoWorkers, SlotState
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import ServiceName, WorkerName, peer_id
from dragoman.model.target import resources_of

#: A busy worker is dropped this long after its job's time, so that the core ends the job first.
_LATE: Final = 1.0
_NOT_ARRIVED: Final = Fault(FaultCode.HANDED_BACK, "its JOB was lost with an earlier connection")

EventsAndSends = list[Event | Send]


def disconnect_unknown(address: Address, id_: bytes, *, is_strict: bool = False) -> Send:
    """Return the DISCONNECT for an unknown ID; a strict one also confirms a result."""
    return Send(address, [encode(MemoDisconnect(id_))], is_strict=is_strict)


class MemoWorkerHandler:
    """All workers of one link; `table` holds them."""

    def __init__(
        self,
        link: str,
        ids: Callable[[], str],
        table: MemoWorkers,
        codecs: BodyCodecs,
        settings: MemoSettings,
    ) -> None:
        self._link = link
        self._ids = ids
        self._table = table
        self._codecs = codecs
        self._settings = settings
        self._late = LateResults()
        self.resends = 0

    def restore(self, past: LinkPast, load_body: LoadBody) -> None:
        """Restore the assignments of an earlier process."""
        self._late.restore(past, load_body)

    # --- messages from workers ----------------------------------------------------------------

    def ready(self, address: Address, ready: MemoReady, now: float) -> EventsAndSends:
        """Register a worker, unless its READY is a resend or there are too many."""
        if self._table.has_ready(address):
            self.resends += 1
            return []
        if len(self._table) >= self._settings.max_workers:
            return [
                refusal(self._link, address, f"the link has {len(self._table)} workers, its limit")
            ]
        id_ = self._new_id()
        worker = MemoWorker(id_, peer_id(self._link, id_.hex()), address)
        self._table.add(worker)
        services, labels = read_labels(ready.services)
        joined = WorkerJoined(
            worker.peer,
            WorkerName(f"{self._link}-{id_.hex()}"),
            tuple(map(ServiceName, services)),
            credit=1,
            labels=labels,
            dialect=NAME,
        )
        parked = self._park(worker, address, now)
        # memo01 does not answer READY. A HEARTBEAT at once tells SDK workers that they joined.
        confirmation = [self._beat(worker, now)] if labels.get("agent") == "dragoman" else []
        return [joined, *parked, *confirmation]

    def _new_id(self) -> bytes:
        """Return an unused ID; it cannot be guessed if `ids` cannot."""
        while True:
            id_ = blake2b(self._ids().encode(), digest_size=8).digest()
            if id_ not in self._table.by_id:
                return id_

    def heartbeat(self, address: Address, beat: MemoHeartbeat, now: float) -> EventsAndSends:
        """Read the answer to a HEARTBEAT; park the worker again."""
        worker = self._table.by_id.get(beat.id)
        if worker is None:
            return [*self._undelivered(beat.id), disconnect_unknown(address, beat.id)]
        again = self._resent_by(worker, address, now)
        if again is not None:
            return [*again]
        if worker.slot is not SlotState.OWES_HEARTBEAT:
            return self._out_of_sync(worker, address, "HEARTBEAT")
        return [BeatReceived(worker.peer), *self._park(worker, address, now)]

    def result(self, address: Address, result: MemoResult, now: float) -> EventsAndSends:
        """Read a result; park the worker again, or drop it if it leaves."""
        if not result.id:
            raise MalformedMessage("the ID of a worker's RESULT must not be empty")
        worker = self._table.by_id.get(result.id)
        if worker is None:
            late = self._late_reply(address, result)
            return [*late, disconnect_unknown(address, result.id, is_strict=True)]
        again = self._resent_by(worker, address, now)
        if again is not None:
            return [*again]
        if worker.slot is not SlotState.BUSY or worker.job is None:
            return self._out_of_sync(worker, address, "RESULT")
        reply, worker.is_unconfirmed = self._reply(worker, result), True
        if worker.run_until is not None and now > worker.run_until:
            return [reply, *self._out_of_sync(worker, address, "RESULT after the job's timeout")]
        worker.job, worker.run_until = None, None
        if result.is_leaving:
            self._table.drop(worker)
            bye = disconnect_unknown(address, worker.id, is_strict=True)
            return [reply, PeerLeft(worker.peer, "left with its last result"), bye]
        credit = CreditGranted(worker.peer, request=number_of(address))
        return [reply, credit, *self._park(worker, address, now)]

    def _reply(self, worker: MemoWorker, result: MemoResult) -> ReplyReceived:
        assert worker.job is not None
        payload = result.payload
        fault, body = fault_in(payload), Body(NAME, (payload,))
        if len(payload) > self._settings.payload_limit:
            limit = f"the limit is {self._settings.payload_limit}"
            message = f"the result has {len(payload)} bytes; {limit}"
            # No body: an empty payload would be a result of its own.
            fault, body = Fault(FaultCode.TOO_LARGE, message), EMPTY
        elif worker.is_converted:
            body = Body(NAME, (as_value(payload),))
        return ReplyReceived(worker.peer, worker.job, ReplyKind.FINAL, body, fault, worker.attempt)

    def _late_reply(self, address: Address, result: MemoResult) -> list[ReplyReceived]:
        """Return the reply of a lost worker, or of a worker of an earlier process."""
        lost = self._late.take(result.id, address, result.payload)
        if lost is None:
            return self._undelivered(result.id)
        if len(result.payload) > self._settings.payload_limit:
            return []
        fault, body = fault_in(result.payload), Body(NAME, (result.payload,))
        return [ReplyReceived(lost.peer, lost.job, ReplyKind.FINAL, body, fault, lost.attempt)]

    def _undelivered(self, id_: bytes) -> list[ReplyReceived]:
        """Return the job of an earlier process to the core: its JOB was lost on the way.

        A worker that has its JOB sends neither a HEARTBEAT nor the result before.
        """
        lost = self._late.take_undelivered(id_)
        if lost is None:
            return []
        return [
            ReplyReceived(lost.peer, lost.job, ReplyKind.FINAL, EMPTY, _NOT_ARRIVED, lost.attempt)
        ]

    def connection_ended(self, connection: bytes, now: float) -> EventsAndSends:
        """Drop the parked workers of a connection; the others may come back on another one."""
        left: EventsAndSends = []
        until = now + self._settings.reconnect_grace
        for worker in self._table.end_connection(connection):
            if worker.slot is SlotState.PARKED:
                left.append(self._drop(worker, "its connection ended"))
            elif worker.due_at is None or worker.due_at > until:
                self._table.set_due(worker, until)
        return left

    # --- slots --------------------------------------------------------------------------------

    def _park(self, worker: MemoWorker, address: Address, now: float) -> list[Send]:
        """Park a worker's request, or answer it with the JOB that waits."""
        self._table.move(worker, address)
        worker.slot, worker.address, worker.last_answer = SlotState.PARKED, address, b""
        if worker.pending is None:
            self._table.set_due(worker, now + self._settings.beat_every)
            return []
        message, worker.pending = worker.pending, None
        return [self._answer(worker, message, SlotState.BUSY, worker.run_until)]

    def _answer(
        self, worker: MemoWorker, message: bytes, slot: SlotState, since: float | None
    ) -> Send:
        """Answer a parked request; the worker's next one is due some time after `since`."""
        address = worker.address
        assert address is not None
        worker.address, worker.last_request, worker.slot = None, address, slot
        worker.last_answer = message
        late = _LATE if slot is SlotState.BUSY else self._settings.beat_answer
        self._table.set_due(worker, None if since is None else since + late)
        is_strict, worker.is_unconfirmed = worker.is_unconfirmed, False
        return Send(address, [message], is_strict=is_strict)

    def _resent_by(self, worker: MemoWorker, address: Address, now: float) -> list[Send] | None:
        """Handle a resent request; None if the request is new.

        On the same connection the request is still open, or crossed with its answer. On another
        one the worker has reconnected, so the answer is lost and is sent again, unless a later
        request of the worker shows that the answer arrived.
        """
        if worker.address is not None and has_same_id(worker.address, address):
            self._table.move(worker, address)
            worker.address = address
        elif worker.last_request is None or not has_same_id(worker.last_request, address):
            return None
        elif worker.last_request != address and worker.slot is not SlotState.PARKED:
            self.resends += 1
            self._table.move(worker, address)
            worker.address = address
            since = worker.run_until if worker.slot is SlotState.BUSY else now
            return [self._answer(worker, worker.last_answer, worker.slot, since)]
        self.resends += 1
        return []

    def _out_of_sync(self, worker: MemoWorker, address: Address, message: str) -> EventsAndSends:
        """Drop a worker whose message does not fit its slot."""
        left = self._drop(worker, f"out of sync: {message} while {worker.slot.value}")
        return [left, disconnect_unknown(address, worker.id, is_strict=worker.is_unconfirmed)]

    def _drop(self, worker: MemoWorker, reason: str) -> PeerLeft:
        self._table.drop(worker)
        self._late.expect(worker)
        return PeerLeft(worker.peer, reason)

    # --- messages to workers ------------------------------------------------------------------

    def send_work(self, work: SendWork, client_timeout_ms: int | None, now: float) -> list[Send]:
        """Send a job, now or as the answer to the worker's next request."""
        worker = self._table.of_peer(work.worker)
        if worker is None:
            return []
        headers = {RESOURCES: work.target} if resources_of(work.target) else None
        body = work.body
        if body.parts:
            body = convert_call(self._codecs, body, NAME, headers)
        payload = b"".join(body.parts)
        worker.is_converted = work.body.dialect != NAME and payload.startswith(TAG)
        worker.job, worker.attempt, worker.run_until = work.job, work.attempt, work.run_until
        timeout_ms = _time_left(work, now) if client_timeout_ms is None else client_timeout_ms
        message = encode(MemoJob(worker.id, work.service, timeout_ms, payload))
        if worker.slot is SlotState.PARKED:
            return [self._answer(worker, message, SlotState.BUSY, work.run_until)]
        worker.pending = message
        return []

    def send_beat(self, beat: SendBeat, now: float) -> list[Send]:
        """Send a HEARTBEAT if the worker is parked."""
        worker = self._table.of_peer(beat.worker)
        if worker is None or worker.slot is not SlotState.PARKED:
            return []
        return [self._beat(worker, now)]

    def _beat(self, worker: MemoWorker, now: float) -> Send:
        return self._answer(worker, encode(MemoHeartbeat(worker.id)), SlotState.OWES_HEARTBEAT, now)

    def dismiss(self, dismiss: Dismiss, now: float) -> list[Send]:
        """Drop a worker. A parked one gets DISCONNECT now, others with their next message."""
        worker = self._table.of_peer(dismiss.peer)
        if worker is None:
            return []
        self._drop(worker, dismiss.reason)
        if worker.address is None:
            return []
        return [Send(worker.address, [encode(MemoDisconnect(worker.id))])]

    # --- timers -------------------------------------------------------------------------------

    def advance(self, now: float) -> EventsAndSends:
        """Send the heartbeats that are due; drop the workers whose answers are overdue."""
        out: EventsAndSends = []
        while (worker := self._table.pop_due(now)) is not None:
            if worker.slot is SlotState.PARKED:
                out.append(self._beat(worker, now))
            else:
                out.append(self._drop(worker, _why_lost(worker)))
        return out


def _time_left(work: SendWork, now: float) -> int:
    """Return how long a job of another link's client may run, in milliseconds."""
    if work.run_until is None:
        return LONGEST_TIMEOUT_MS
    return min(max(1, ceil((work.run_until - now) * 1000 - 0.5)), LONGEST_TIMEOUT_MS)


def _why_lost(worker: MemoWorker) -> str:
    if worker.connection is None:
        return "its connection ended and the worker did not come back"
    if worker.slot is SlotState.OWES_HEARTBEAT:
        return "the worker did not answer a HEARTBEAT"
    return "the worker did not send a RESULT in time"
