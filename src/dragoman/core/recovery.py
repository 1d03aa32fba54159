"""Recovery: a new process continues where the last one stopped.

`fold` replays the records; `resume` starts a broker on them. Workers are absent until they register
again. Their parts wait for them for a grace time, so that a broker restart alone never runs a job
twice.
"""

from collections.abc import Callable, Iterable

from dragoman.core.broker import Broker
from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import dispatch_job, enqueue
from dragoman.core.effects import Effect
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
from dragoman.model.names import PeerId
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
    state.append(Record(state.next_seq, state.now, Kind.STARTED, detail=detail))
    forget_finished(state)
    for job in [j for j in store.jobs.values() if not j.is_final]:
        _resume_job(state, job, load_body)
    return broker, effects


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
    run_timeout = part.job.terms.run_timeout
    if run_timeout is not None:
        part.run_timer = state.deadlines.set(part.dispatched_at + run_timeout, TimerKind.RUN, part)
