"""What workers say about the jobs they hold. Only the current attempt counts."""

from dragoman.core.dispatch import target_workers
from dragoman.core.effects import Dismiss
from dragoman.core.endings import end_part, pass_on, take_back
from dragoman.core.events import JobForwarded, ReplyKind, ReplyReceived
from dragoman.core.jobs import JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.core.workers import touch_worker
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId
from dragoman.model.record import Kind, Record
from dragoman.model.target import AnyWorker, Labelled, Named, Target


def reply_received(desk: BrokerState, event: ReplyReceived) -> None:
    """Apply a worker's word about a job, or put it on record as late."""
    worker = _speaker(desk, event.worker)
    part = _current(desk, worker, event.job)
    if part is None or event.attempt not in (None, part.attempt):
        _late(desk, event, worker)
        return
    assert worker is not None
    if event.kind is ReplyKind.FINAL:
        _final(desk, part, event)
    else:
        _on_the_way(desk, worker, part, event)


def _speaker(desk: BrokerState, peer: PeerId) -> RegisteredWorker | None:
    """Return the worker that speaks; one that is away may still bring what it holds."""
    absent = desk.absent.get(peer)
    if absent is not None and peer not in desk.registry.workers:
        desk.out.append(Dismiss(peer, "not registered here"))
        return absent
    return touch_worker(desk, peer)


def _current(desk: BrokerState, worker: RegisteredWorker | None, job_id: JobId) -> JobPart | None:
    """Find the part of a job that a worker holds now."""
    job = desk.store.jobs.get(job_id)
    if worker is None or job is None:
        return None
    for part in job.parts:
        if worker.held.get(part.key) is part:
            return part
    return None


def _final(desk: BrokerState, part: JobPart, event: ReplyReceived) -> None:
    fault = event.fault
    if fault is None:
        end_part(desk, part, JobState.SUCCEEDED, None, event.body)
    elif fault.code is FaultCode.HANDED_BACK:
        take_back(desk, part, fault)
    elif fault.code is FaultCode.CANCELLED and part.job.cancel_asked_at:
        end_part(desk, part, JobState.CANCELLED, fault)
    else:
        end_part(desk, part, JobState.FAILED, fault, event.body)


def _on_the_way(
    desk: BrokerState, worker: RegisteredWorker, part: JobPart, event: ReplyReceived
) -> None:
    """Pass on what comes before the result; a stream's pieces are not put on record."""
    body: Body | None = event.body
    if event.kind is ReplyKind.ACCEPTED:
        desk.note(Kind.ACCEPTED, part, worker=worker)
    elif event.kind is ReplyKind.INPUT_ASKED:
        desk.note(Kind.INPUT_ASKED, part, body=body, worker=worker)
    elif event.kind is ReplyKind.PROGRESS:
        kept = body if event.body.size <= desk.limits.progress_bytes else None
        desk.note(Kind.PROGRESS, part, body=kept, worker=worker)
    desk.reply(part.job, event.kind, part=part, body=event.body)


def _late(desk: BrokerState, event: ReplyReceived, worker: RegisteredWorker | None) -> None:
    """Record what comes too late to count; a result's body is kept, as evidence."""
    job = desk.store.jobs.get(event.job)
    is_result = event.kind is ReplyKind.FINAL and event.body.size > 0
    desk.record(
        Record(
            desk.next_seq,
            desk.now,
            Kind.LATE,
            event.job,
            attempt=event.attempt or 0,
            service=job.service if job else "",
            client=job.client if job else "",
            worker=worker.name if worker else "",
            peer=event.worker,
            dialect=worker.dialect if worker else "",
            state=job.state if job else "",
            detail=event.kind,
            nbytes=event.body.size if is_result else 0,
            digest=event.body.digest() if is_result else "",
            submitted_at=job.submitted_at if job else 0.0,
        ),
        event.body if is_result else None,
    )


def job_forwarded(desk: BrokerState, event: JobForwarded) -> None:
    """Pass a job on to another service; its client and id stay."""
    worker = _speaker(desk, event.worker)
    part = _current(desk, worker, event.job)
    if part is None or worker is None or event.attempt not in (None, part.attempt):
        reply = ReplyReceived(
            event.worker, event.job, ReplyKind.FINAL, event.body, None, event.attempt
        )
        _late(desk, reply, worker)
        return
    target, fault = _next_target(desk, event), None
    if part.job.hops >= desk.limits.hops:
        words = f"handed over {part.job.hops} times, the last by {worker.name}"
        fault = Fault(FaultCode.TOO_MANY_HOPS, words)
    elif target is None:
        words = f"{worker.name} handed it over to {event.service}, {event.target}: no such worker"
        fault = Fault(FaultCode.NO_WORKER, words)
    if fault is not None:
        end_part(desk, part, JobState.FAILED, fault)
    elif target is not None:
        pass_on(desk, part, event, target)


def _next_target(desk: BrokerState, event: JobForwarded) -> Target | None:
    """Say whom one part of a job may go to next: one worker, however many the target means."""
    if event.service == EVERY_SERVICE:
        return None
    if isinstance(event.target, AnyWorker | Labelled):
        return event.target
    names = target_workers(desk, event.service, event.target)
    return Named(names[:1]) if names else None
