"""Replies of workers about the jobs they hold. Only the current attempt counts."""

from dragoman.core.dispatch import target_workers
from dragoman.core.effects import Dismiss
from dragoman.core.endings import end_part, forward_part, requeue_or_end, retry_or_end
from dragoman.core.events import JobForwarded, ReplyKind, ReplyReceived
from dragoman.core.jobs import JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.core.workers import touch_worker
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId
from dragoman.model.record import Kind
from dragoman.model.target import AnyWorker, Labelled, Named, Target


def reply_received(state: BrokerState, event: ReplyReceived) -> None:
    """Apply a worker's reply, or record it as late."""
    worker = _sender(state, event.worker)
    part = _current(state, worker, event.job)
    if part is None or event.attempt not in (None, part.attempt):
        _record_late(state, event, worker)
        return
    assert worker is not None
    if event.kind is ReplyKind.FINAL:
        if worker.prefetch:
            _adapt_prefetch(state, worker, part, event)
        _final(state, part, event)
    else:
        _intermediate(state, worker, part, event)


def _adapt_prefetch(
    state: BrokerState, worker: RegisteredWorker, part: JobPart, event: ReplyReceived
) -> None:
    """Give a worker more jobs in advance while they return quickly; none after a hand-back."""
    if event.fault is not None and event.fault.code is FaultCode.HANDED_BACK:
        worker.extra = 0
    else:
        worker.note_turnaround(state.now - part.dispatched_at)


def _sender(state: BrokerState, peer: PeerId) -> RegisteredWorker | None:
    """Return the worker that sent a reply. An absent one may still answer for what it holds."""
    absent = state.absent.get(peer)
    if absent is not None and peer not in state.registry.workers:
        state.out.append(Dismiss(peer, "not registered here"))
        return absent
    return touch_worker(state, peer)


def _current(state: BrokerState, worker: RegisteredWorker | None, job_id: JobId) -> JobPart | None:
    """Return the part of a job that a worker holds."""
    job = state.store.jobs.get(job_id)
    if worker is None or job is None:
        return None
    for part in job.parts:
        if worker.held.get(part.key) is part:
            return part
    return None


def _final(state: BrokerState, part: JobPart, event: ReplyReceived) -> None:
    fault = event.fault
    if fault is None:
        end_part(state, part, JobState.SUCCEEDED, None, event.body)
    elif fault.code is FaultCode.HANDED_BACK:
        requeue_or_end(state, part, fault)
    elif fault.code is FaultCode.CANCELLED and part.job.cancel_asked_at:
        end_part(state, part, JobState.CANCELLED, fault)
    else:
        retry_or_end(state, part, JobState.FAILED, fault, event.body)


def _intermediate(
    state: BrokerState, worker: RegisteredWorker, part: JobPart, event: ReplyReceived
) -> None:
    """Send replies before the result to the client; chunks of a stream are not recorded."""
    body: Body | None = event.body
    if event.kind is ReplyKind.ACCEPTED:
        if part.accept_seq:
            # Another broker confirms a job that waits there, and again when it is dispatched.
            return
        state.record(Kind.ACCEPTED, part, by=worker)
    elif event.kind is ReplyKind.INPUT_ASKED:
        state.record(Kind.INPUT_ASKED, part, body=body, by=worker)
    elif event.kind is ReplyKind.PROGRESS:
        kept = body if event.body.size <= state.limits.progress_bytes else None
        state.record(Kind.PROGRESS, part, body=kept, by=worker)
    state.reply(part.job, event.kind, part=part, body=event.body)


def _record_late(state: BrokerState, event: ReplyReceived, worker: RegisteredWorker | None) -> None:
    """Record a reply that comes too late to count; keep the body of a result as evidence."""
    job = state.store.jobs.get(event.job)
    is_result = event.kind is ReplyKind.FINAL and event.body.size > 0
    state.record(
        Kind.LATE,
        body=event.body if is_result else None,
        job=event.job,
        attempt=event.attempt or 0,
        service=job.service if job else "",
        client=job.client if job else "",
        worker=worker.name if worker else "",
        peer=event.worker,
        dialect=worker.dialect if worker else "",
        state=job.state if job else "",
        detail=event.kind,
        submitted_at=job.submitted_at if job else 0.0,
    )


def job_forwarded(state: BrokerState, event: JobForwarded) -> None:
    """Forward a job to another service; its client and id stay."""
    worker = _sender(state, event.worker)
    part = _current(state, worker, event.job)
    if part is None or worker is None or event.attempt not in (None, part.attempt):
        reply = ReplyReceived(
            event.worker, event.job, ReplyKind.FINAL, event.body, None, event.attempt
        )
        _record_late(state, reply, worker)
        return
    target, fault = _next_target(state, event), None
    if part.job.hops >= state.limits.hops:
        message = f"forwarded {part.job.hops} times, the last time by {worker.name}"
        fault = Fault(FaultCode.TOO_MANY_HOPS, message)
    elif target is None:
        message = f"{worker.name} forwarded it to {event.service}, {event.target}: no such worker"
        fault = Fault(FaultCode.NO_WORKER, message)
    if fault is not None:
        end_part(state, part, JobState.FAILED, fault)
    elif target is not None:
        forward_part(state, part, event, target)


def _next_target(state: BrokerState, event: JobForwarded) -> Target | None:
    """Return the target of a forwarded part: one worker, even if the target matches several."""
    if event.service == EVERY_SERVICE:
        return None
    if isinstance(event.target, AnyWorker | Labelled):
        return event.target
    names = target_workers(state, event.service, event.target)
    return Named(names[:1]) if names else None
