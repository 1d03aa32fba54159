"""Worker sessions: join, heartbeat, credit, leave, loss, drain."""

from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import bind_waiting_jobs, fill_worker, is_served, start_patience
from dragoman.core.effects import Dismiss, SendPoll
from dragoman.core.endings import end_part, requeue_or_end
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    DeliveryFailed,
    DrainRequested,
    PeerLeft,
    WorkerJoined,
)
from dragoman.core.jobs import JobPart
from dragoman.core.lanes import QueueLane
from dragoman.core.ownership import join_distributions, leave_distributions
from dragoman.core.rebinding import rebind_from, rebind_from_departed
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import PeerId
from dragoman.model.record import Kind


def worker_joined(state: BrokerState, event: WorkerJoined) -> None:
    """Register a worker, or update the offer of a registered one."""
    known = state.registry.workers.get(event.worker)
    worker = known or state.absent.pop(event.worker, None)
    before = _waiting_for(state, known) if known is not None else []
    if known is not None:
        state.registry.remove(known)
    if worker is None:
        worker = RegisteredWorker(event, state.now)
    else:
        worker.offer(event)
    worker.seen_at = state.now
    worker.is_blocked = worker.is_draining = worker.is_gone = False
    worker.is_drained = worker.name in state.store.queue.drained
    has_open = state.store.families.has_open
    worker.parents = {key for key, part in worker.held.items() if has_open(part.job.id)}
    state.registry.add(worker)
    _record_joined(state, worker, Kind.RESYNCED if known else Kind.JOINED)
    _start_beats(state, worker, is_new=known is None)
    _reconcile(state, worker, event)
    if worker.route:
        _stop_run_timers(state, worker)
    if state.distributions:
        join_distributions(state, worker)
    if state.distributions or worker.resources:
        rebind_from_departed(state)
    fill_worker(state, worker)
    bind_waiting_jobs(state, worker)
    _start_patience_of_unserved(state, before)


def _record_joined(state: BrokerState, worker: RegisteredWorker, kind: Kind) -> None:
    within = int(worker.rejoins_within)
    state.record(kind, worker, detail="\n".join(worker.services), count=within)
    if worker.resources:
        state.record(Kind.OWNS, worker, detail="\n".join(worker.resources))


def _start_beats(state: BrokerState, worker: RegisteredWorker, *, is_new: bool) -> None:
    if is_new:
        worker.joined_at, worker.beats, worker.beats_sent = state.now, 0, 0
    _stop_timers(state, worker)
    if worker.beat_every is not None and worker.lease is not None:
        worker.lease_timer = state.deadlines.set(state.now + worker.lease, TimerKind.LEASE, worker)
        worker.beat_timer = state.deadlines.set(
            state.now + worker.beat_every, TimerKind.BEAT, worker
        )


def _stop_timers(state: BrokerState, worker: RegisteredWorker) -> None:
    for timer in (worker.lease_timer, worker.beat_timer, worker.absence_timer):
        state.deadlines.cancel(timer)
    worker.lease_timer = worker.beat_timer = worker.absence_timer = None


def _reconcile(state: BrokerState, worker: RegisteredWorker, event: WorkerJoined) -> None:
    """Compare the parts a returned worker holds here with the jobs it reports."""
    unstarted = worker.unstarted()
    for part in list(worker.held.values()):
        if event.holds is not None and part.job.id not in event.holds:
            reason = f"{worker.name} restarted without the job"
            requeue_or_end(state, part, _loss(part, part in unstarted, reason))
        else:
            state.out.append(SendPoll(worker.peer, part.job.id, part.attempt, part.job.client))


def _stop_run_timers(state: BrokerState, worker: RegisteredWorker) -> None:
    """Leave the attempts of a worker that is a broker to itself; a restart has timed them here."""
    for part in worker.held.values():
        state.deadlines.cancel(part.run_timer)
        part.run_timer = None


def credit_granted(state: BrokerState, event: CreditGranted) -> None:
    """Add credit to a worker."""
    worker = touch_worker(state, event.worker)
    if worker is None:
        return
    if worker.credit is not None:
        worker.credit += max(event.credit, 0)
    worker.request = event.request
    state.registry.refresh(worker)
    fill_worker(state, worker)


def beat_received(state: BrokerState, event: BeatReceived) -> None:
    """Renew a worker's lease."""
    worker = touch_worker(state, event.worker)
    if worker is None:
        return
    worker.beats += 1
    if event.capacity is not None:
        worker.capacity = event.capacity.plus(worker.used)
        fill_worker(state, worker)


def touch_worker(state: BrokerState, peer: PeerId) -> RegisteredWorker | None:
    """Note that a worker sent something. Dismiss an unknown peer, so that it registers again."""
    worker = state.registry.workers.get(peer)
    if worker is None:
        state.out.append(Dismiss(peer, "not registered here"))
        return None
    worker.seen_at = state.now
    if worker.is_blocked:
        worker.is_blocked = worker.is_gone = False
        state.registry.refresh(worker)
        fill_worker(state, worker)
    return worker


def peer_left(state: BrokerState, event: PeerLeft) -> None:
    """End a peer's session. A client's jobs continue: their results can be requested later."""
    worker = state.registry.workers.get(event.peer)
    if worker is None:
        state.forget_client(event.peer)
    elif event.grace > 0 and worker.held:
        _mark_absent(state, worker, event.reason, event.grace)
    else:
        _end_and_requeue(state, worker, event.reason)


def _mark_absent(state: BrokerState, worker: RegisteredWorker, reason: str, grace: float) -> None:
    """End a session; its assignments wait for the worker to come back."""
    _end_session(state, worker, "", reason)
    state.absent[worker.peer] = worker
    worker.absence_timer = state.deadlines.set(state.now + grace, TimerKind.ABSENCE, worker)


def give_up_absent(state: BrokerState, worker: RegisteredWorker) -> None:
    """Requeue the parts of a worker that did not come back in time."""
    del state.absent[worker.peer]
    _requeue_all(state, worker, f"{worker.name} did not come back")


def dismiss_worker(state: BrokerState, worker: RegisteredWorker, reason: str) -> None:
    """End a worker's session and tell the worker."""
    state.out.append(Dismiss(worker.peer, reason))
    _end_and_requeue(state, worker, reason)


def _end_and_requeue(state: BrokerState, worker: RegisteredWorker, reason: str) -> None:
    """End a worker's session; requeue the parts it held."""
    fault = FaultCode.WORKER_LOST.value if worker.held else ""
    _end_session(state, worker, fault, reason)
    _requeue_all(state, worker, f"{worker.name}: {reason}")


def _end_session(state: BrokerState, worker: RegisteredWorker, fault: str, reason: str) -> None:
    _stop_timers(state, worker)
    state.registry.remove(worker)
    if state.distributions:
        leave_distributions(state, worker)
    elif worker.resources:
        rebind_from(state, worker.name)
    state.record(Kind.LEFT, worker, fault=fault, detail=reason, count=worker.beats)
    _start_patience_of_unserved(state, _waiting_for(state, worker))


def _waiting_for(state: BrokerState, worker: RegisteredWorker) -> list[QueueLane]:
    """Return the lanes that a worker serves or served."""
    lanes = state.queues.bound_to(worker.name)
    for service in worker.services:
        queue = state.queues.find(service)
        lanes += queue.lanes.values() if queue else ()
    return lanes


def _start_patience_of_unserved(state: BrokerState, lanes: list[QueueLane]) -> None:
    """Start the patience of queued parts that no worker can take."""
    for lane in lanes:
        waiting = lane.waiting()
        first = waiting[0] if waiting else None
        if first and not is_served(state, first):
            for part in waiting:
                start_patience(state, part)


def _requeue_all(state: BrokerState, worker: RegisteredWorker, reason: str) -> None:
    unstarted = worker.unstarted()
    held, worker.held = list(worker.held.values()), {}
    for part in held:
        requeue_or_end(state, part, _loss(part, part in unstarted, reason))


def _loss(part: JobPart, is_unstarted: bool, reason: str) -> Fault:
    """Return why an attempt ended with its worker. A job that had not begun does not count it.

    Results that were lost with the worker let a job begin earlier than the broker can see. So the
    number of uncounted attempts is limited, too: a job that kills its workers still ends.
    """
    if is_unstarted and part.returned < part.job.terms.max_attempts:
        return Fault(FaultCode.UNDELIVERED, f"{reason}; the job had not begun")
    return Fault(FaultCode.WORKER_LOST, reason)


def delivery_failed(state: BrokerState, event: DeliveryFailed) -> None:
    """Requeue an undelivered part, and send the peer nothing until its next message."""
    worker = state.registry.workers.get(event.peer)
    part = _held_part(worker, event) if worker else None
    why = event.fault.message if event.fault else ("gone" if event.is_gone else "queue full")
    state.record(
        Kind.UNDELIVERED,
        job=event.job or "",
        part=part.index if part else 0,
        attempt=event.attempt,
        service=part.service if part else "",
        client=part.job.client if part else "",
        worker=worker.name if worker else "",
        peer=event.peer,
        fault=event.fault.code if event.fault else FaultCode.UNDELIVERED,
        detail=why,
        submitted_at=part.job.submitted_at if part else 0.0,
    )
    if worker is not None and event.fault is None:
        worker.is_blocked = True
        worker.is_gone = event.is_gone
        state.registry.refresh(worker)
        if event.is_gone and worker.lease_timer is not None:
            state.deadlines.cancel(worker.lease_timer)
            worker.lease_timer = state.deadlines.set(state.now, TimerKind.LEASE, worker)
    if part is None:
        return
    assert worker is not None
    if worker.credit is not None and not worker.credit_returns:
        # It never got the job, so it still has the credit.
        worker.credit += 1
    if event.fault is not None:
        end_part(state, part, JobState.FAILED, event.fault)
    else:
        message = f"{part.worker} could not be reached: {why}"
        requeue_or_end(state, part, Fault(FaultCode.UNDELIVERED, message))


def _held_part(worker: RegisteredWorker, event: DeliveryFailed) -> JobPart | None:
    for part in worker.held.values():
        if part.job.id == event.job and part.attempt == event.attempt:
            return part
    return None


def drain_requested(state: BrokerState, event: DrainRequested) -> None:
    """Drain a worker, or the whole broker."""
    if event.peer is None:
        state.is_draining = True
        return
    worker = state.registry.workers.get(event.peer)
    if worker is None:
        return
    worker.is_draining = True
    state.registry.refresh(worker)
    if event.at_once:
        dismiss_worker(state, worker, event.reason or "disconnected")
    elif not worker.held:
        dismiss_worker(state, worker, "drained")


def release_drained_workers(state: BrokerState) -> None:
    """End the sessions of draining workers that hold no parts."""
    drained, state.registry.drained = state.registry.drained, []
    for worker in drained:
        is_here = state.registry.workers.get(worker.peer) is worker
        if is_here and worker.is_draining and not worker.held:
            dismiss_worker(state, worker, "drained")
