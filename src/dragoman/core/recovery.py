"""Recovery: a new process continues where the last one stopped.

`fold` replays the records; `resume` starts a broker on them. Workers are absent until they register
again. Their parts wait for them for a grace time, so that a broker restart alone never runs a job
twice.
"""

from collections.abc import Callable, Iterable, Iterator

from dragoman.core.broker import Broker
from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import dispatch_job, enqueue, work_of
from dragoman.core.effects import Effect, SendWork
from dragoman.core.endings import end_gathered, end_job, end_part, forget_finished
from dragoman.core.events import WorkerJoined
from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job, JobPart
from dragoman.core.limits import Limits
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.core.submissions import start_timers
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId
from dragoman.model.record import Kind, Record


def fold(records: Iterable[Record], keep: int = 100_000) -> JobStore:
    """Replay records into a store; keep the newest `keep` finished jobs."""
    store = JobStore()
    apply, finished = store.apply, store.finished
    for record in records:
        apply(record)
        if len(finished) > keep:
            store.forget(finished.popleft())
    return store


def resume(
    store: JobStore,
    load_body: Callable[[int], Body | None],
    now: float,
    limits: Limits | None = None,
    detail: str = "",
) -> tuple[Broker, list[Effect]]:
    """Start a broker on a store; return it with its first effects."""
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
        _resume_job(state, job, load_body)
    return broker, effects


def work_in_flight(broker: Broker) -> Iterator[SendWork]:
    """Yield the work that an earlier process sent to workers, as it was sent then.

    Sides remember it, so that they recognise the replies. Nothing is sent again.
    """
    for worker in broker.state.absent.values():
        for part in worker.held.values():
            yield work_of(part, worker.peer, _ran_until(part))


def open_requests(broker: Broker) -> Iterator[tuple[JobId, PeerId, Body]]:
    """Yield the open jobs with their clients and requests, so that sides know how to reply."""
    for job in broker.state.store.jobs.values():
        first = next((p for p in job.parts if p.request_seq == job.submit_seq), None)
        request = first.request if first is not None else job.request
        if not job.is_final and request is not None:
            yield job.id, job.client, request


def _ran_until(part: JobPart) -> float | None:
    limits = (part.job.deadline_at or None, _run_deadline(part))
    return min((at for at in limits if at is not None), default=None)


def _run_deadline(part: JobPart) -> float | None:
    run_timeout = part.job.terms.run_timeout
    return None if run_timeout is None else part.dispatched_at + run_timeout


def _grace(state: BrokerState, peer: PeerId) -> float:
    """Return how long the parts of a worker wait for it to come back."""
    return max(state.limits.recovery_grace, state.store.graces.get(peer, 0.0))


def _resume_job(state: BrokerState, job: Job, load_body: Callable[[int], Body | None]) -> None:
    start_timers(state, job)
    for part in job.open_parts():
        part.request = load_body(part.request_seq) or EMPTY
    if not job.parts:
        job.request = load_body(job.submit_seq) or EMPTY
    if job.cancel_asked_at:
        _resume_cancel(state, job)
    elif not job.parts:
        dispatch_job(state, job)
    elif not job.open_parts():
        end_gathered(state, job)
    for part in job.open_parts():
        if part.state is JobState.RUNNING:
            _await_worker(state, part)
        else:
            enqueue(state, part)


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
        worker = RegisteredWorker(WorkerJoined(part.peer, part.worker, ()), state.now)
        state.absent[part.peer] = worker
        at = state.now + _grace(state, part.peer)
        worker.absence_timer = state.deadlines.set(at, TimerKind.ABSENCE, worker)
    worker.held[part.key] = part
    ends_at = _run_deadline(part)
    if ends_at is not None:
        part.run_timer = state.deadlines.set(ends_at, TimerKind.RUN, part)
