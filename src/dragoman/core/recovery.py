"""Records -> broker: how a new process goes on where the last one stopped.

`fold` replays the records; `resume` puts what was open back to work. Workers are gone until they
speak again: what they held waits for them for a grace time, so that a broker restart alone never
runs anything twice.
"""

from collections.abc import Callable, Iterable

from dragoman.core.book import Book
from dragoman.core.broker import Broker
from dragoman.core.deadlines import Due
from dragoman.core.desk import Desk
from dragoman.core.dispatch import enqueue, place
from dragoman.core.effects import Effect
from dragoman.core.endings import end_gathered, end_job, end_part, forget_finished
from dragoman.core.events import WorkerJoined
from dragoman.core.jobs import Job, Part
from dragoman.core.limits import Limits
from dragoman.core.registry import Worker
from dragoman.core.submissions import start_timers
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record


def fold(records: Iterable[Record], keep: int = 100_000) -> Book:
    """Replay records into a book; of the finished jobs, the newest `keep` stay."""
    book = Book()
    apply, finished = book.apply, book.finished
    for record in records:
        apply(record)
        if len(finished) > keep:
            book.forget(finished.popleft())
    return book


def resume(
    book: Book,
    load_body: Callable[[int], Body | None],
    now: float,
    limits: Limits | None = None,
    detail: str = "",
) -> tuple[Broker, list[Effect]]:
    """Make a broker of a book, and return it with the first things to do."""
    broker = Broker(limits, book)
    desk = broker.desk
    desk.now = max(desk.now, now)
    sessions = (_grace(desk, peer) for peer in book.sessions)
    desk.settled_at = desk.now + max((desk.limits.recovery_grace, *sessions))
    effects: list[Effect] = []
    desk.out = effects
    desk.record(Record(desk.next_seq, desk.now, Kind.STARTED, detail=detail))
    forget_finished(desk)
    for job in [j for j in book.jobs.values() if not j.is_final]:
        _resume_job(desk, job, load_body)
    return broker, effects


def _grace(desk: Desk, peer: PeerId) -> float:
    """Say how long what a worker held waits for it: as long as its kind takes to come back."""
    return max(desk.limits.recovery_grace, desk.book.graces.get(peer, 0.0))


def _resume_job(desk: Desk, job: Job, load_body: Callable[[int], Body | None]) -> None:
    start_timers(desk, job)
    for part in job.open_parts():
        part.request = load_body(part.request_seq) or EMPTY
    if not job.parts:
        job.request = load_body(job.submit_seq) or EMPTY
    if job.cancel_asked_at:
        _resume_cancel(desk, job)
    elif not job.parts:
        place(desk, job)
    elif not job.open_parts():
        end_gathered(desk, job)
    for part in job.open_parts():
        if part.state is JobState.RUNNING:
            _await_worker(desk, part)
        else:
            enqueue(desk, part)


def _resume_cancel(desk: Desk, job: Job) -> None:
    """Go on with a cancel: what waits never starts, what runs has its time to confirm."""
    at = job.cancel_asked_at + job.terms.cancel_grace
    job.cancel_due = desk.deadlines.set(at, Due.CANCEL, job)
    fault = Fault(FaultCode.CANCELLED, "cancelled before it started")
    if not job.parts:
        end_job(desk, job, JobState.CANCELLED, fault)
    for part in job.open_parts():
        if part.state is JobState.QUEUED:
            end_part(desk, part, JobState.CANCELLED, fault)


def _await_worker(desk: Desk, part: Part) -> None:
    """Let a running part wait for its worker to come back."""
    worker = desk.absent.get(part.peer)
    if worker is None:
        worker = Worker(WorkerJoined(part.peer, part.worker, ()), desk.now)
        desk.absent[part.peer] = worker
        at = desk.now + _grace(desk, part.peer)
        worker.absence_due = desk.deadlines.set(at, Due.ABSENCE, worker)
    worker.held[part.key] = part
    run_timeout = part.job.terms.run_timeout
    if run_timeout is not None:
        part.runs_out = desk.deadlines.set(part.dispatched_at + run_timeout, Due.RUN, part)
