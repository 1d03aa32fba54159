"""Workers come, beat, ask for more, go, and get lost."""

from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import bind_waiting_jobs, can_serve, fill_worker, start_patience
from dragoman.core.effects import Dismiss, SendPoll
from dragoman.core.endings import end_part, take_back
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    DeliveryFailed,
    DrainRequested,
    PeerLeft,
    WorkerJoined,
)
from dragoman.core.jobs import JobPart
from dragoman.core.ownership import join_distributions, leave_distributions
from dragoman.core.queues import QueueLane
from dragoman.core.rebinding import rebind_from, rebind_from_departed
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record


def worker_joined(desk: BrokerState, event: WorkerJoined) -> None:
    """Register a worker, or take over what a known one offers now."""
    known = desk.registry.workers.get(event.worker)
    worker = known or desk.absent.pop(event.worker, None)
    before = _waiting_for(desk, known) if known is not None else []
    if known is not None:
        desk.registry.remove(known)
    if worker is None:
        worker = RegisteredWorker(event, desk.now)
    else:
        worker.offer(event)
    worker.seen_at = desk.now
    worker.is_blocked = worker.is_draining = worker.is_gone = False
    desk.registry.add(worker)
    _note_joined(desk, worker, Kind.RESYNCED if known else Kind.JOINED)
    _start_beats(desk, worker, is_new=known is None)
    _reconcile(desk, worker, event)
    if desk.shares:
        join_distributions(desk, worker)
    if desk.shares or worker.resources:
        rebind_from_departed(desk)
    fill_worker(desk, worker)
    bind_waiting_jobs(desk, worker)
    _arm_unserved(desk, before)


def _note_joined(desk: BrokerState, worker: RegisteredWorker, kind: Kind) -> None:
    within = int(worker.rejoins_within)
    desk.note_worker(kind, worker, detail="\n".join(worker.services), count=within)
    if worker.resources:
        desk.note_worker(Kind.OWNS, worker, detail="\n".join(worker.resources))


def _start_beats(desk: BrokerState, worker: RegisteredWorker, *, is_new: bool) -> None:
    if is_new:
        worker.joined_at, worker.beats = desk.now, 0
    _stop_timers(desk, worker)
    if worker.beat_every is not None and worker.lease is not None:
        worker.lease_due = desk.deadlines.set(desk.now + worker.lease, TimerKind.LEASE, worker)
        worker.beat_due = desk.deadlines.set(desk.now + worker.beat_every, TimerKind.BEAT, worker)


def _stop_timers(desk: BrokerState, worker: RegisteredWorker) -> None:
    for timer in (worker.lease_due, worker.beat_due, worker.absence_due):
        desk.deadlines.cancel(timer)
    worker.lease_due = worker.beat_due = worker.absence_due = None


def _reconcile(desk: BrokerState, worker: RegisteredWorker, event: WorkerJoined) -> None:
    """Compare what a returned worker should hold with what it says it holds."""
    for part in list(worker.held.values()):
        if event.holds is not None and part.job.id not in event.holds:
            take_back(desk, part, Fault(FaultCode.WORKER_LOST, f"{worker.name} started anew"))
        else:
            desk.out.append(SendPoll(worker.peer, part.job.id, part.attempt, part.job.client))


def credit_granted(desk: BrokerState, event: CreditGranted) -> None:
    """Let a worker have more."""
    worker = touch_worker(desk, event.worker)
    if worker is None:
        return
    if worker.credit is not None:
        worker.credit += max(event.credit, 0)
    desk.registry.refresh(worker)
    fill_worker(desk, worker)


def beat_received(desk: BrokerState, event: BeatReceived) -> None:
    """Keep a worker's lease."""
    worker = touch_worker(desk, event.worker)
    if worker is None:
        return
    worker.beats += 1
    if event.capacity is not None:
        worker.capacity = event.capacity.plus(worker.used)
        fill_worker(desk, worker)


def touch_worker(desk: BrokerState, peer: PeerId) -> RegisteredWorker | None:
    """Note a sign of life; dismiss a peer that is no worker here, so that it joins anew."""
    worker = desk.registry.workers.get(peer)
    if worker is None:
        desk.out.append(Dismiss(peer, "not registered here"))
        return None
    worker.seen_at = desk.now
    if worker.is_blocked:
        worker.is_blocked = worker.is_gone = False
        desk.registry.refresh(worker)
        fill_worker(desk, worker)
    return worker


def peer_left(desk: BrokerState, event: PeerLeft) -> None:
    """Let a peer go. A client's jobs go on: somebody may ask for their results."""
    worker = desk.registry.workers.get(event.peer)
    if worker is None:
        desk.part_with(event.peer)
    elif event.grace > 0 and worker.held:
        _go_absent(desk, worker, event.reason, event.grace)
    else:
        _let_go(desk, worker, event.reason)


def _go_absent(desk: BrokerState, worker: RegisteredWorker, reason: str, grace: float) -> None:
    """End a session, but let its assignments wait for the worker to come back."""
    _end_session(desk, worker, "", reason)
    desk.absent[worker.peer] = worker
    worker.absence_due = desk.deadlines.set(desk.now + grace, TimerKind.ABSENCE, worker)


def lose_absent(desk: BrokerState, worker: RegisteredWorker) -> None:
    """Give up on a worker that did not come back in time."""
    del desk.absent[worker.peer]
    _take_all_back(desk, worker, f"{worker.name} did not come back")


def dismiss_worker(desk: BrokerState, worker: RegisteredWorker, reason: str) -> None:
    """End a worker's session from this side, and tell it so."""
    desk.out.append(Dismiss(worker.peer, reason))
    _let_go(desk, worker, reason)


def _let_go(desk: BrokerState, worker: RegisteredWorker, reason: str) -> None:
    """End a worker's session; what it held goes to others."""
    fault = FaultCode.WORKER_LOST.value if worker.held else ""
    _end_session(desk, worker, fault, reason)
    _take_all_back(desk, worker, f"{worker.name}: {reason}")


def _end_session(desk: BrokerState, worker: RegisteredWorker, fault: str, reason: str) -> None:
    _stop_timers(desk, worker)
    desk.registry.remove(worker)
    if desk.shares:
        leave_distributions(desk, worker)
    elif worker.resources:
        rebind_from(desk, worker.name)
    desk.note_worker(Kind.LEFT, worker, fault=fault, detail=reason, count=worker.beats)
    _arm_unserved(desk, _waiting_for(desk, worker))


def _waiting_for(desk: BrokerState, worker: RegisteredWorker) -> list[QueueLane]:
    """Return the lanes that a worker serves, or served until now."""
    lanes = desk.queues.bound_to(worker.name)
    for service in worker.services:
        queue = desk.queues.find(service)
        lanes += queue.lanes.values() if queue else ()
    return lanes


def _arm_unserved(desk: BrokerState, lanes: list[QueueLane]) -> None:
    """Start the patience of what nobody can serve now."""
    for lane in lanes:
        waiting = lane.waiting()
        first = waiting[0] if waiting else None
        if first and not can_serve(desk, lane.service, first.target, lane.bound):
            for part in waiting:
                start_patience(desk, part)


def _take_all_back(desk: BrokerState, worker: RegisteredWorker, reason: str) -> None:
    held, worker.held = list(worker.held.values()), {}
    for part in held:
        take_back(desk, part, Fault(FaultCode.WORKER_LOST, reason))


def delivery_failed(desk: BrokerState, event: DeliveryFailed) -> None:
    """Take back what a transport or dialect could not deliver, and give that peer a rest."""
    worker = desk.registry.workers.get(event.peer)
    part = _held_part(worker, event) if worker else None
    why = event.fault.message if event.fault else ("gone" if event.is_gone else "queue full")
    desk.record(
        Record(
            desk.next_seq,
            desk.now,
            Kind.UNDELIVERED,
            event.job or "",
            part.index if part else 0,
            event.attempt,
            service=part.service if part else "",
            client=part.job.client if part else "",
            worker=worker.name if worker else "",
            peer=event.peer,
            fault=event.fault.code if event.fault else FaultCode.UNDELIVERED,
            detail=why,
            submitted_at=part.job.submitted_at if part else 0.0,
        )
    )
    if worker is not None and event.fault is None:
        worker.is_blocked = True
        worker.is_gone = event.is_gone
        desk.registry.refresh(worker)
        if event.is_gone and worker.lease_due is not None:
            desk.deadlines.cancel(worker.lease_due)
            worker.lease_due = desk.deadlines.set(desk.now, TimerKind.LEASE, worker)
    if part is None:
        return
    assert worker is not None
    if worker.credit is not None and not worker.credit_returns:
        # It never got the job, so it still waits for one.
        worker.credit += 1
    if event.fault is not None:
        end_part(desk, part, JobState.FAILED, event.fault)
    else:
        words = f"{part.worker} could not be reached: {why}"
        take_back(desk, part, Fault(FaultCode.UNDELIVERED, words))


def _held_part(worker: RegisteredWorker, event: DeliveryFailed) -> JobPart | None:
    for part in worker.held.values():
        if part.job.id == event.job and part.attempt == event.attempt:
            return part
    return None


def drain_requested(desk: BrokerState, event: DrainRequested) -> None:
    """Give no more work to a worker, or take no more in at all."""
    if event.peer is None:
        desk.is_draining = True
        return
    worker = desk.registry.workers.get(event.peer)
    if worker is None:
        return
    worker.is_draining = True
    desk.registry.refresh(worker)
    if event.at_once:
        dismiss_worker(desk, worker, event.reason or "disconnected")
    elif not worker.held:
        dismiss_worker(desk, worker, "drained")


def release_drained_workers(desk: BrokerState) -> None:
    """End the sessions of draining workers that gave their last job away."""
    drained, desk.registry.drained = desk.registry.drained, []
    for worker in drained:
        is_here = desk.registry.workers.get(worker.peer) is worker
        if is_here and worker.is_draining and not worker.held:
            dismiss_worker(desk, worker, "drained")
