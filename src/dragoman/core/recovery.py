"""Records -> broker: how a new process goes on where the last one stopped.

`fold` replays the records; `resume` puts what was open back to work. Workers are gone until they
speak again: what they held waits for them for a grace time, so that a broker restart alone never
runs anything twice.
"""

from collections.abc import Callable, Iterable

from dragoman.core.broker import Broker
from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import enqueue, place
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
    """Replay records into a book; of the finished jobs, the newest `keep` stay."""
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
    """Make a broker of a book, and return it with the first things to do."""
    broker = Broker(limits, store)
    state = broker.state
    state.now = max(state.now, now)
    sessions = (_grace(state, peer) for peer in store.sessions)
    state.recovery_ends_at = state.now + max((state.limits.recovery_grace, *sessions))
    effects: list[Effect] = []
    state.out = effects
    state.record(Record(state.next_seq, state.now, Kind.STARTED, detail=detail))
    forget_finished(state)
    for job in [j for j in store.jobs.values() if not j.is_final]:
        _resume_job(state, job, load_body)
    return broker, effects


def _grace(state: BrokerState, peer: PeerId) -> float:
    """Say how long what a worker held waits for it: as long as its kind takes to come back."""
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
        place(state, job)
    elif not job.open_parts():
        end_gathered(state, job)
    for part in job.open_parts():
        if part.state is JobState.RUNNING:
            _await_worker(state, part)
        else:
            enqueue(state, part)


def _resume_cancel(state: BrokerState, job: Job) -> None:
    """Go on with a cancel: what waits never starts, what runs has its time to confirm."""
    at = job.cancel_asked_at + job.terms.cancel_grace
    job.cancel_due = state.deadlines.set(at, TimerKind.CANCEL, job)
    fault = Fault(FaultCode.CANCELLED, "cancelled before it started")
    if not job.parts:
        end_job(state, job, JobState.CANCELLED, fault)
    for part in job.open_parts():
        if part.state is JobState.QUEUED:
            end_part(state, part, JobState.CANCELLED, fault)


def _await_worker(state: BrokerState, part: JobPart) -> None:
    """Let a running part wait for its worker to come back."""
    worker = state.absent.get(part.peer)
    if worker is None:
        worker = RegisteredWorker(WorkerJoined(part.peer, part.worker, ()), state.now)
        state.absent[part.peer] = worker
        at = state.now + _grace(state, part.peer)
        worker.absence_due = state.deadlines.set(at, TimerKind.ABSENCE, worker)
    worker.held[part.key] = part
    run_timeout = part.job.terms.run_timeout
    if run_timeout is not None:
        part.runs_out = state.deadlines.set(part.dispatched_at + run_timeout, TimerKind.RUN, part)
