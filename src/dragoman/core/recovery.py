"""Recovery: a new process continues where the last one stopped.

`fold` replays the records; `resume` starts a broker on them. Workers are absent until they register
again. Their parts wait for them for a grace time, so that a broker restart alone never runs a job
twice.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from dragoman.core.broker import Broker
from dragoman.core.cancels import cancel_orphans
from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import dispatch_job, enqueue, start_patience, work_of
from dragoman.core.effects import Effect, RecoveredRequest, RecoveredWork
from dragoman.core.endings import end_gathered, end_job, end_part, forget_finished
from dragoman.core.events import WorkerJoined
from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job, JobPart, is_single
from dragoman.core.limits import Limits
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.core.submissions import start_timers
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import ANONYMOUS, PeerId
from dragoman.model.record import Kind, Record


def fold(records: Iterable[Record], keep: int = 100_000, store: JobStore | None = None) -> JobStore:
    """Replay records into a store; keep the newest `keep` finished jobs.

    A store that holds the records before these is continued.
    """
    store = store if store is not None else JobStore()
    apply, finished = store.apply, store.finished
    for record in records:
        apply(record)
        if len(finished) > keep:
            store.forget(finished.popleft())
    return store


def forget_old(store: JobStore, ended_before: float) -> None:
    """Drop the finished jobs that a start would drop because of their age."""
    finished = store.finished
    while finished and finished[0].ended_at <= ended_before:
        store.forget(finished.popleft())


def resume(
    store: JobStore,
    now: float,
    limits: Limits | None = None,
    detail: str = "",
) -> tuple[Broker, list[Effect]]:
    """Start a broker on a store; return it with its first effects.

    Bodies of requests stay in the ledger until they are dispatched.
    """
    broker = Broker(limits, store)
    state = broker.state
    state.now = max(state.now, now)
    sessions = (_grace(state, peer) for peer in store.sessions)
    state.recovery_ends_at = state.now + max((state.limits.recovery_grace, *sessions))
    effects: list[Effect] = []
    state.out = effects
    state.record(Kind.STARTED, detail=detail)
    forget_finished(state)
    for job in [j for j in store.jobs.values() if not j.is_final]:
        _resume_job(state, job)
    cancel_orphans(state)
    for worker in state.absent.values():
        # A worker starts its jobs in the order of their dispatch, not of their submission.
        held = sorted(worker.held.items(), key=lambda item: item[1].dispatch_seq)
        worker.held = dict(held)
    return broker, effects


def work_in_flight(broker: Broker) -> Iterator[RecoveredWork]:
    """Yield the work that an earlier process sent to workers, as it was sent then.

    Sides remember it, so that they recognise the replies. Nothing is sent again.
    """
    results = broker.state.store.results
    for worker in broker.state.absent.values():
        for part in worker.held.values():
            work = work_of(part, worker.peer, _ran_until(part), part.dispatch_seq)
            last_result = results.get(worker.peer, 0)
            yield RecoveredWork(
                work, part.dispatched_at, part.accept_seq, last_result, part.answers
            )


def recovered_requests(store: JobStore) -> Iterator[RecoveredRequest]:
    """Yield the requests that an earlier process took in: open ones, and recent successes."""
    for job in store.jobs.values():
        if not job.is_final:
            yield RecoveredRequest(job.id, job.client, job.submit_seq, job.terms)
    for job in chain(store.finished, store.families.held.values()):
        if job.state is JobState.SUCCEEDED:
            yield RecoveredRequest(job.id, job.client, job.submit_seq, job.terms, job.ended_at)


def _ran_until(part: JobPart) -> float | None:
    limits = (part.job.deadline_at or None, _run_deadline(part))
    return min((at for at in limits if at is not None), default=None)


def _run_deadline(part: JobPart) -> float | None:
    run_timeout = part.job.terms.run_timeout
    return None if run_timeout is None else part.dispatched_at + run_timeout


def _grace(state: BrokerState, peer: PeerId) -> float:
    """Return how long the parts of a worker wait for it to come back."""
    return max(state.limits.recovery_grace, state.store.graces.get(peer, 0.0))


def _resume_job(state: BrokerState, job: Job) -> None:
    start_timers(state, job)
    if _is_plain(job, state.now):
        # Most of a long queue. No worker has registered yet, so none is looked for.
        state.queues.push(job.parts[0])
        start_patience(state, job.parts[0])
    else:
        _resume_parts(state, job)


def _is_plain(job: Job, now: float) -> bool:
    """Tell whether a job has one queued part that could start now."""
    if job.state is not JobState.QUEUED or len(job.parts) != 1 or job.cancel_asked_at:
        return False
    return job.parts[0].retry_at <= now and job.starts_at <= now


def _resume_parts(state: BrokerState, job: Job) -> None:
    if job.cancel_asked_at:
        _resume_cancel(state, job)
    elif not job.parts or (is_single(job) and job.starts_at > state.now and is_new(job)):
        dispatch_job(state, job)
        return
    elif not job.open_parts():
        end_gathered(state, job)
    for part in job.open_parts():
        if part.state is JobState.RUNNING:
            _await_worker(state, part)
        elif part.retry_at > state.now:
            part.retry_timer = state.deadlines.set(part.retry_at, TimerKind.RETRY, part)
        else:
            enqueue(state, part)


def is_new(job: Job) -> bool:
    """Tell whether no part of a job was ever dispatched."""
    return not any(part.attempt for part in job.parts)


def _resume_cancel(state: BrokerState, job: Job) -> None:
    """Continue a cancel: end queued parts; running parts get the grace time to confirm."""
    at = job.cancel_asked_at + job.terms.cancel_grace
    job.cancel_timer = state.deadlines.set(at, TimerKind.CANCEL, job)
    fault = Fault(FaultCode.CANCELLED, "cancelled before it started")
    if not job.parts:
        end_job(state, job, JobState.CANCELLED, fault)
    for part in job.open_parts():
        if part.state is JobState.QUEUED:
            end_part(state, part, JobState.CANCELLED, fault)


def _await_worker(state: BrokerState, part: JobPart) -> None:
    """Keep a running part for its absent worker."""
    worker = state.absent.get(part.peer)
    if worker is None:
        _, principal = state.store.joins.get(part.peer, (0, ANONYMOUS))
        joined = WorkerJoined(part.peer, part.worker, (), principal=principal)
        worker = RegisteredWorker(joined, state.now)
        state.absent[part.peer] = worker
        at = state.now + _grace(state, part.peer)
        worker.absence_timer = state.deadlines.set(at, TimerKind.ABSENCE, worker)
    worker.held[part.key] = part
    state.limiters.hold(part)
    ends_at = _run_deadline(part)
    if ends_at is not None:
        part.run_timer = state.deadlines.set(ends_at, TimerKind.RUN, part)
