"""How assignments and jobs end, and how an attempt that came to nothing is tried again.

Everything that makes a part or a job final goes through here, so each job ends exactly once.
"""

from typing import Final

from dragoman.core.book import Job, Part
from dragoman.core.deadlines import Due
from dragoman.core.desk import Desk, status_of
from dragoman.core.dispatch import enqueue, feed
from dragoman.core.effects import Asked, SendCancel, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.core.registry import Worker
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.record import Kind

#: A job with several parts ends in the first of these that one of its parts ended in.
_WORST: Final = (
    JobState.DEAD,
    JobState.FAILED,
    JobState.EXPIRED,
    JobState.CANCELLED,
    JobState.SUCCEEDED,
)


def end_part(
    desk: Desk,
    part: Part,
    state: JobState,
    fault: Fault | None = None,
    body: Body | None = None,
    *,
    stop: bool = False,
) -> None:
    """Make one part final, and the job too if it was the last; `stop` tells its worker."""
    job = part.job
    worker = desk.holder(part)
    if stop:
        _stop(desk, part, desk.next_seq)
    _settle(desk, part)
    part.body = body
    if len(job.parts) == 1:
        desk.note(Kind.ENDED, part, body=body, state=state, fault=fault, worker=worker)
        _close(desk, job, part, body)
    else:
        desk.note(Kind.GATHERED, part, body=body, state=state, fault=fault, worker=worker)
        desk.reply(job, ReplyKind.PART, part=part, body=body or EMPTY, fault=fault, state=state)
        if not job.open_parts():
            _end_gathered(desk, job)
    if worker is not None:
        feed(desk, worker)


def _end_gathered(desk: Desk, job: Job) -> None:
    """End a job whose parts have all ended, in the worst of their states."""
    states = {p.state for p in job.parts}
    worst = next(s for s in _WORST if s in states)
    fault = next((p.fault for p in job.parts if p.state is worst), None)
    desk.note_job(Kind.ENDED, job, state=worst, fault=fault)
    _close(desk, job, None, None)


def end_job(desk: Desk, job: Job, state: JobState, fault: Fault | None) -> None:
    """Make a job final at once, with every part that is still open; its workers are told."""
    freed = []
    for part in job.open_parts():
        worker = desk.holder(part)
        if worker is not None:
            freed.append(worker)
            _stop(desk, part, desk.next_seq)
        _settle(desk, part)
    queue = desk.queues.find(job.service)
    if queue is not None and queue.unbound.pop(job.id, None) is not None:
        desk.queues.tidy(job.service)
    if len(job.parts) == 1:
        desk.note(Kind.ENDED, job.parts[0], state=state, fault=fault)
    else:
        desk.note_job(Kind.ENDED, job, state=state, fault=fault)
    _close(desk, job, None, None)
    for worker in freed:
        feed(desk, worker)


def _stop(desk: Desk, part: Part, seq: int) -> None:
    """Tell the worker that holds a part to stop, if it can be reached."""
    job = part.job
    if part.state is JobState.RUNNING and part.peer in desk.registry.workers:
        desk.out.append(
            SendCancel(part.peer, job.id, part.attempt, job.client, seq, job.terms.strict)
        )


def _settle(desk: Desk, part: Part) -> None:
    """Take a part from wherever it is: its worker, its lane, its timers."""
    worker = desk.holder(part)
    if worker is not None:
        if worker.peer in desk.registry.workers:
            desk.registry.release(worker, part)
        else:
            worker.held.pop(part.key, None)
    desk.queues.discard(part)
    for timer in (part.patience, part.retry, part.runs_out):
        desk.deadlines.cancel(timer)
    part.patience = part.retry = part.runs_out = None
    part.refused_by = None


def _close(desk: Desk, job: Job, part: Part | None, body: Body | None, *, seq: int = 0) -> None:
    """Tell everybody that a job has ended, and keep its result for a while."""
    for timer in (job.due, job.queue_due, job.cancel_due, job.unbound_due):
        desk.deadlines.cancel(timer)
    job.due = job.queue_due = job.cancel_due = job.unbound_due = None
    job.request = None
    for each in job.parts:
        each.request = None
    desk.reply(
        job,
        ReplyKind.FINAL,
        part=part,
        body=body or EMPTY,
        fault=job.fault,
        state=job.state,
        seq=seq,
    )
    for peer in job.cancellers:
        desk.out.append(
            SendStatus(peer, job.id, Asked.CANCEL, status_of(job), job.fault, job.terms.strict)
        )
    job.cancellers = []
    desk.keep_result(job)
    forget_finished(desk)


def take_back(desk: Desk, part: Part, fault: Fault) -> None:
    """End an attempt without a result: try again, or give up if it was one too many."""
    worker = desk.holder(part)
    job = part.job
    take_from_worker(desk, part)
    lost = fault.code is FaultCode.WORKER_LOST
    tries = part.attempt - part.returned
    if job.cancel_asked_at:
        fault = Fault(FaultCode.CANCEL_UNCONFIRMED, "the worker was lost before it confirmed")
        end_part(desk, part, JobState.CANCELLED, fault)
    elif lost and tries >= job.terms.max_attempts:
        words = f"lost with its worker {tries} times, the last was {part.worker}"
        end_part(desk, part, JobState.DEAD, Fault(FaultCode.EXHAUSTED, words))
    else:
        desk.note(Kind.REQUEUED, part, state="queued", fault=fault, worker=worker)
        _try_again(desk, part, worker, is_refusal=not lost, tries=tries)
    if worker is not None and worker.peer in desk.registry.workers:
        feed(desk, worker)


def take_from_worker(desk: Desk, part: Part) -> None:
    """End an attempt, and only that: the part is nobody's, and who refused it is remembered."""
    refused_by = part.refused_by
    _settle(desk, part)
    part.refused_by = refused_by


def close_memoized(desk: Desk, job: Job, earlier: Job) -> None:
    """End a job with the result that an earlier one of the same content had."""
    part, source = job.parts[0], earlier.parts[0]
    part.body = source.body
    words = f"memoised from job {earlier.id}"
    desk.note(Kind.ENDED, part, state=JobState.SUCCEEDED, detail=words, count=source.result_seq)
    _close(desk, job, part, source.body, seq=0 if source.body else source.result_seq)


def _try_again(
    desk: Desk, part: Part, worker: Worker | None, *, is_refusal: bool, tries: int
) -> None:
    """Let a part wait for its next attempt: at once, after a back-off, or elsewhere."""
    terms, limits = part.job.terms, desk.limits
    if is_refusal and worker is not None:
        # Others may take it now; the one that would not is asked again later.
        part.refused_by = (part.refused_by or set()) | {worker.name}
        part.retry = desk.deadlines.set(desk.now + limits.refusal_pause, Due.RETRY, part)
    elif terms.backoff:
        wait = min(terms.backoff * 2 ** (tries - 1), limits.longest_backoff)
        part.retry = desk.deadlines.set(desk.now + wait, Due.RETRY, part)
        return
    enqueue(desk, part)


def forget_finished(desk: Desk) -> None:
    """Let go of finished jobs beyond the retention, by age and by number."""
    book, limits = desk.book, desk.limits
    while book.finished:
        at, job_id = book.finished[0]
        if len(book.finished) <= limits.finished_jobs and at + limits.retention > desk.now:
            break
        book.finished.popleft()
        job = book.jobs[job_id]
        desk.drop_result(job)
        book.forget(job)
