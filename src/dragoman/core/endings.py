"""How parts and jobs end, and how an attempt without a result is retried.

Every final state of a part or job is set here, so each job ends exactly once.
"""

from math import ceil
from typing import Final

from dragoman.core.children import note_children
from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import enqueue_after, fill_worker
from dragoman.core.effects import RequestKind, SendCancel, SendStatus
from dragoman.core.events import JobForwarded, ReplyKind
from dragoman.core.jobs import Job, JobPart
from dragoman.core.rebinding import rebind
from dragoman.core.records import part_record
from dragoman.core.registry import RegisteredWorker
from dragoman.core.retries import retry_wait
from dragoman.core.state import BrokerState, status_of
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId
from dragoman.model.record import Kind
from dragoman.model.target import Target
from dragoman.model.terms import Terms, terms_text

#: A job with several parts ends in the first of these states that any of its parts has.
_WORST: Final = (
    JobState.DEAD,
    JobState.FAILED,
    JobState.EXPIRED,
    JobState.CANCELLED,
    JobState.SUCCEEDED,
)


def hook_terms(job: Job) -> str:
    """Return what the record of a job's end says of its webhook: the URL, as its `terms`.

    Whoever delivers reads the ends only, also long after the submission.
    """
    return terms_text(Terms(webhook=job.terms.webhook)) if job.terms.webhook else ""


def end_part(
    state: BrokerState,
    part: JobPart,
    final_state: JobState,
    fault: Fault | None = None,
    body: Body | None = None,
    *,
    stop: bool = False,
) -> None:
    """Make one part final, and its job if no part is open. `stop`: send its worker a cancel."""
    job = part.job
    worker = state.holder(part)
    if stop:
        _send_cancel(state, part, state.next_seq)
    _detach(state, part)
    part.body = body
    if len(job.parts) == 1:
        record = part_record(
            state.next_seq,
            state.now,
            Kind.ENDED,
            part,
            by=worker,
            state=final_state,
            attempt=part.attempt,
            failure=fault,
            body=body,
            terms=hook_terms(job),
        )
        state.append(record, body)
        _finish_job(state, job, part, body)
    else:
        state.record(Kind.GATHERED, part, body=body, state=final_state, failure=fault, by=worker)
        state.reply(
            job, ReplyKind.PART, part=part, body=body or EMPTY, fault=fault, state=final_state
        )
        if not job.open_parts():
            end_gathered(state, job)
    if worker is not None:
        fill_worker(state, worker)


def end_gathered(state: BrokerState, job: Job) -> None:
    """End a job whose parts have all ended, with the worst of their states."""
    states = {p.state for p in job.parts}
    worst = next(s for s in _WORST if s in states)
    fault = next((p.fault for p in job.parts if p.state is worst), None)
    state.record(Kind.ENDED, job, state=worst, failure=fault, terms=hook_terms(job))
    _finish_job(state, job, None, None)


def end_job(state: BrokerState, job: Job, final_state: JobState, fault: Fault | None) -> None:
    """Make a job and its open parts final now; send cancels to its workers."""
    freed = []
    for part in job.open_parts():
        worker = state.holder(part)
        if worker is not None:
            freed.append(worker)
            _send_cancel(state, part, state.next_seq)
        _detach(state, part)
    queue = state.queues.find(job.service)
    if queue is not None and queue.unbound.pop(job.id, None) is not None:
        state.queues.tidy(job.service)
    about = job.parts[0] if len(job.parts) == 1 else job
    state.record(Kind.ENDED, about, state=final_state, failure=fault, terms=hook_terms(job))
    _finish_job(state, job, None, None)
    for worker in freed:
        fill_worker(state, worker)


def _send_cancel(state: BrokerState, part: JobPart, seq: int) -> None:
    """Send a cancel to the worker that holds a part, if it is connected."""
    job = part.job
    if part.state is JobState.RUNNING and part.peer in state.registry.workers:
        state.out.append(
            SendCancel(part.peer, job.id, part.attempt, job.client, seq, job.terms.strict)
        )


def _detach(state: BrokerState, part: JobPart) -> None:
    """Remove a part from its worker and its lane; cancel its timers."""
    worker = state.registry.workers.get(part.peer)
    if worker is not None:
        state.registry.release(worker, part)
    elif (absent := state.absent.get(part.peer)) is not None:
        absent.held.pop(part.key, None)
    if part.slots is not None:
        state.limiters.release(part)
    if part.queued_in is not None:
        state.queues.discard(part)
    if part.patience_timer or part.retry_timer or part.run_timer:
        for timer in (part.patience_timer, part.retry_timer, part.run_timer):
            state.deadlines.cancel(timer)
        part.patience_timer = part.retry_timer = part.run_timer = None
    part.refused_by = None


def _finish_job(
    state: BrokerState, job: Job, part: JobPart | None, body: Body | None, *, seq: int = 0
) -> None:
    """Send the final reply of a job to its client and to cancellers; cache its result."""
    if job.start_timer is not None:
        state.deadlines.cancel(job.start_timer)
        job.start_timer = None
        state.queues.undelay(job)
    if job.deadline_timer or job.queue_timer or job.cancel_timer or job.unbound_timer:
        for timer in (job.deadline_timer, job.queue_timer, job.cancel_timer, job.unbound_timer):
            if timer is not None:
                state.deadlines.cancel(timer)
        job.deadline_timer = job.queue_timer = job.cancel_timer = job.unbound_timer = None
    job.request = None
    for each in job.parts:
        each.request = None
    state.reply(
        job,
        ReplyKind.FINAL,
        part=part,
        body=body or EMPTY,
        fault=job.fault,
        state=job.state,
        seq=seq,
    )
    if job.cancellers is not None:
        _answer_cancellers(state, job, job.cancellers)
    state.cache_result(job)
    if job.parent:
        note_children(state, job.parent)
    if job.state is not JobState.SUCCEEDED:
        state.orphaning.append(job)
    forget_finished(state)


def _answer_cancellers(state: BrokerState, job: Job, cancellers: dict[PeerId, JobId]) -> None:
    status = status_of(job, state.gone(job))
    for peer, client_job_id in cancellers.items():
        if peer not in state.departed_clients:
            state.out.append(
                SendStatus(
                    peer, client_job_id, RequestKind.CANCEL, status, job.fault, job.terms.strict
                )
            )
    job.cancellers = None


def requeue_or_end(state: BrokerState, part: JobPart, fault: Fault) -> None:
    """End an attempt without a result: retry, or end the part if its attempts are used up."""
    worker = state.holder(part)
    job = part.job
    refused_by = part.refused_by
    _detach(state, part)
    lost = fault.code is FaultCode.WORKER_LOST
    if job.cancel_asked_at:
        end_part(state, part, JobState.CANCELLED, _cancelled(lost))
    elif lost and part.losses >= job.terms.max_attempts:
        message = f"the worker was lost in each of {part.losses} attempts"
        if part.failures:
            message = f"the worker was lost in {part.losses} attempts; {part.failures} failed"
        message += f"; the last was {part.worker}"
        end_part(state, part, JobState.DEAD, Fault(FaultCode.EXHAUSTED, message))
    else:
        wait = _wait_after_loss(state, part) if lost else 0.0
        _record_requeued(state, part, fault, worker, wait)
        if not lost and worker is not None:
            part.refused_by = (refused_by or set()) | {worker.name}
        _try_again(state, part, worker)
    if worker is not None:
        fill_worker(state, worker)


def _wait_after_loss(state: BrokerState, part: JobPart) -> float:
    wait: float = part.job.terms.backoff * 2.0 ** min(part.losses - 1, 64)
    return min(wait, state.limits.longest_backoff)


def _record_requeued(
    state: BrokerState,
    part: JobPart,
    fault: Fault,
    worker: RegisteredWorker | None,
    wait: float,
    body: Body | None = None,
) -> None:
    """Record that an attempt ended and when the next one may start."""
    state.record(
        Kind.REQUEUED,
        part,
        body=body,
        state="queued",
        failure=fault,
        by=worker,
        count=ceil(wait * 1000),
    )
    rebind(state, part)


def retry_or_end(
    state: BrokerState,
    part: JobPart,
    final_state: JobState,
    fault: Fault,
    body: Body | None = None,
    *,
    stop: bool = False,
) -> None:
    """End a failed attempt: retry it if its terms say so, or else end the part."""
    worker = state.holder(part)
    wait = retry_wait(state, part, fault, worker)
    if wait is None:
        end_part(state, part, final_state, fault, body, stop=stop)
        return
    if stop:
        _send_cancel(state, part, state.next_seq)
    _detach(state, part)
    _record_requeued(state, part, fault, worker, wait, body)
    _try_again(state, part, worker)
    if worker is not None:
        fill_worker(state, worker)


def _cancelled(lost: bool) -> Fault:
    if lost:
        message = "the worker was lost before it confirmed the cancel"
        return Fault(FaultCode.CANCEL_UNCONFIRMED, message)
    return Fault(FaultCode.CANCELLED, "its worker handed the job back after the cancel")


def _try_again(state: BrokerState, part: JobPart, worker: RegisteredWorker | None) -> None:
    """Queue a part for its next attempt, now or after a back-off."""
    if part.retry_at:
        part.retry_timer = state.deadlines.set(part.retry_at, TimerKind.RETRY, part)
        return
    if part.refused_by is not None:
        # Other workers may take it now; those that refused are offered it again later.
        at = state.now + state.limits.refusal_pause
        part.retry_timer = state.deadlines.set(at, TimerKind.RETRY, part)
    enqueue_after(state, part, worker)


def forward_part(state: BrokerState, part: JobPart, event: JobForwarded, target: Target) -> None:
    """Queue a part for a worker of another service; its client and job id stay."""
    worker = state.holder(part)
    _detach(state, part)
    if part.job.cancel_asked_at:
        end_part(state, part, JobState.CANCELLED, _cancelled(lost=False))
    else:
        part.service, part.task, part.request = event.service, event.task, event.body
        state.record(
            Kind.FORWARDED,
            part,
            body=event.body,
            state="queued",
            by=worker,
            target=str(target),
        )
        enqueue_after(state, part, worker)
    if worker is not None:
        fill_worker(state, worker)


def end_memoized(state: BrokerState, job: Job, earlier: Job) -> None:
    """End a job with the result of an earlier job of the same service and body."""
    part, source = job.parts[0], earlier.parts[0]
    part.body = source.body
    detail = f"memoised from job {earlier.id}"
    count, terms = source.result_seq, hook_terms(job)
    state.record(
        Kind.ENDED, part, state=JobState.SUCCEEDED, detail=detail, count=count, terms=terms
    )
    _finish_job(state, job, part, source.body, seq=0 if source.body else source.result_seq)


def forget_finished(state: BrokerState) -> None:
    """Drop finished jobs that exceed the retention, by age or number."""
    store, limits = state.store, state.limits
    while store.finished:
        job = store.finished[0]
        is_young = job.ended_at + limits.retention > state.now
        if is_young and len(store.finished) <= limits.finished_jobs:
            break
        store.finished.popleft()
        if store.jobs.get(job.id) is job:
            state.drop_cached_result(job)
        elif job.result_timer is not None:
            state.deadlines.cancel(job.result_timer)
        store.forget(job)
