"""How assignments and jobs end, and how an attempt that came to nothing is tried again.

Everything that makes a part or a job final goes through here, so each job ends exactly once.
"""

from typing import Final

from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import enqueue_after, fill_worker
from dragoman.core.effects import RequestKind, SendCancel, SendStatus
from dragoman.core.events import JobForwarded, ReplyKind
from dragoman.core.jobs import Job, JobPart
from dragoman.core.rebinding import follow
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState, status_of
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId
from dragoman.model.record import Kind
from dragoman.model.target import Target

#: A job with several parts ends in the first of these that one of its parts ended in.
_WORST: Final = (
    JobState.DEAD,
    JobState.FAILED,
    JobState.EXPIRED,
    JobState.CANCELLED,
    JobState.SUCCEEDED,
)


def end_part(
    desk: BrokerState,
    part: JobPart,
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
            end_gathered(desk, job)
    if worker is not None:
        fill_worker(desk, worker)


def end_gathered(desk: BrokerState, job: Job) -> None:
    """End a job whose parts have all ended, in the worst of their states."""
    states = {p.state for p in job.parts}
    worst = next(s for s in _WORST if s in states)
    fault = next((p.fault for p in job.parts if p.state is worst), None)
    desk.note_job(Kind.ENDED, job, state=worst, fault=fault)
    _close(desk, job, None, None)


def end_job(desk: BrokerState, job: Job, state: JobState, fault: Fault | None) -> None:
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
        fill_worker(desk, worker)


def _stop(desk: BrokerState, part: JobPart, seq: int) -> None:
    """Tell the worker that holds a part to stop, if it can be reached."""
    job = part.job
    if part.state is JobState.RUNNING and part.peer in desk.registry.workers:
        desk.out.append(
            SendCancel(part.peer, job.id, part.attempt, job.client, seq, job.terms.strict)
        )


def _settle(desk: BrokerState, part: JobPart) -> None:
    """Take a part from wherever it is: its worker, its lane, its timers."""
    worker = desk.registry.workers.get(part.peer)
    if worker is not None:
        desk.registry.release(worker, part)
    elif (absent := desk.absent.get(part.peer)) is not None:
        absent.held.pop(part.key, None)
    if part.queued_in is not None:
        desk.queues.discard(part)
    if part.patience or part.retry or part.runs_out:
        for timer in (part.patience, part.retry, part.runs_out):
            desk.deadlines.cancel(timer)
        part.patience = part.retry = part.runs_out = None
    part.refused_by = None


def _close(
    desk: BrokerState, job: Job, part: JobPart | None, body: Body | None, *, seq: int = 0
) -> None:
    """Tell everybody that a job has ended, and keep its result for a while."""
    if job.due or job.queue_due or job.cancel_due or job.unbound_due:
        for timer in (job.due, job.queue_due, job.cancel_due, job.unbound_due):
            if timer is not None:
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
    if job.cancellers is not None:
        _answer_cancellers(desk, job, job.cancellers)
    desk.cache_result(job)
    forget_finished(desk)


def _answer_cancellers(desk: BrokerState, job: Job, cancellers: dict[PeerId, JobId]) -> None:
    status = status_of(job)
    for peer, client_job_id in cancellers.items():
        if peer not in desk.gone:
            desk.out.append(
                SendStatus(
                    peer, client_job_id, RequestKind.CANCEL, status, job.fault, job.terms.strict
                )
            )
    job.cancellers = None


def take_back(desk: BrokerState, part: JobPart, fault: Fault) -> None:
    """End an attempt without a result: try again, or give up if it was one too many."""
    worker = desk.holder(part)
    job = part.job
    refused_by = part.refused_by
    _settle(desk, part)
    lost = fault.code is FaultCode.WORKER_LOST
    tries = part.attempt - part.returned
    if job.cancel_asked_at:
        end_part(desk, part, JobState.CANCELLED, _cancelled(lost))
    elif lost and tries >= job.terms.max_attempts:
        words = f"lost with its worker {tries} times, the last was {part.worker}"
        end_part(desk, part, JobState.DEAD, Fault(FaultCode.EXHAUSTED, words))
    else:
        desk.note(Kind.REQUEUED, part, state="queued", fault=fault, worker=worker)
        follow(desk, part)
        if not lost and worker is not None:
            part.refused_by = (refused_by or set()) | {worker.name}
        _try_again(desk, part, worker, tries)
    if worker is not None:
        fill_worker(desk, worker)


def _cancelled(lost: bool) -> Fault:
    if lost:
        words = "the worker was lost before it confirmed"
        return Fault(FaultCode.CANCEL_UNCONFIRMED, words)
    return Fault(FaultCode.CANCELLED, "its worker gave it up after the cancel")


def _try_again(
    desk: BrokerState, part: JobPart, worker: RegisteredWorker | None, tries: int
) -> None:
    """Let a part wait for its next attempt: at once, after a back-off, or elsewhere."""
    terms, limits = part.job.terms, desk.limits
    if part.refused_by is not None:
        # Others may take it now; those that would not are asked again later.
        part.retry = desk.deadlines.set(desk.now + limits.refusal_pause, TimerKind.RETRY, part)
    elif terms.backoff:
        wait = min(terms.backoff * 2.0 ** min(tries - 1, 64), limits.longest_backoff)
        part.retry = desk.deadlines.set(desk.now + wait, TimerKind.RETRY, part)
        return
    enqueue_after(desk, part, worker)


def pass_on(desk: BrokerState, part: JobPart, event: JobForwarded, target: Target) -> None:
    """Let a part wait for a worker of another service; its client and id stay."""
    worker = desk.holder(part)
    _settle(desk, part)
    if part.job.cancel_asked_at:
        end_part(desk, part, JobState.CANCELLED, _cancelled(lost=False))
    else:
        part.service, part.task, part.request = event.service, event.task, event.body
        desk.note(
            Kind.FORWARDED, part, body=event.body, state="queued", worker=worker, target=str(target)
        )
        enqueue_after(desk, part, worker)
    if worker is not None:
        fill_worker(desk, worker)


def end_memoized(desk: BrokerState, job: Job, earlier: Job) -> None:
    """End a job with the result that an earlier one of the same content had."""
    part, source = job.parts[0], earlier.parts[0]
    part.body = source.body
    words = f"memoised from job {earlier.id}"
    desk.note(Kind.ENDED, part, state=JobState.SUCCEEDED, detail=words, count=source.result_seq)
    _close(desk, job, part, source.body, seq=0 if source.body else source.result_seq)


def forget_finished(desk: BrokerState) -> None:
    """Let go of finished jobs beyond the retention, by age and by number."""
    store, limits = desk.store, desk.limits
    while store.finished:
        job = store.finished[0]
        is_young = job.ended_at + limits.retention > desk.now
        if is_young and len(store.finished) <= limits.finished_jobs:
            break
        store.finished.popleft()
        desk.drop_cached_result(job)
        store.forget(job)
