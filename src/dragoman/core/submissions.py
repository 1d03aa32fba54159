"""What clients ask for: work, a cancel, input to a running job, the state of a job."""

from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import can_serve, place
from dragoman.core.effects import RequestKind, SendCancel, SendInput, SendReply, SendStatus
from dragoman.core.endings import end_job, end_memoized, end_part
from dragoman.core.events import (
    InputReceived,
    JobCancelled,
    JobSubmitted,
    ReplyKind,
    ResultRequested,
)
from dragoman.core.jobs import Job, is_single
from dragoman.core.state import BrokerState, dialect_of, status_of
from dragoman.model.body import EMPTY
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record
from dragoman.model.terms import terms_text


def job_submitted(desk: BrokerState, event: JobSubmitted) -> None:
    """Take a job in, refuse it with a reason, or recognise it."""
    desk.touch_client(event.client).jobs += 1
    digest = event.body.digest()
    known = _known(desk, event)
    if known is not None:
        _again(desk, known, event, digest)
        return
    fault = _refusal(desk, event)
    if fault is not None:
        refuse(desk, event, fault)
        return
    job = _take_in(desk, event, digest)
    earlier = desk.store.memo.get((job.service, digest)) if job.terms.memoize else None
    if earlier is not None and is_single(job):
        end_memoized(desk, job, earlier)
    else:
        place(desk, job)


def _known(desk: BrokerState, event: JobSubmitted) -> Job | None:
    job = desk.store.find(event.job)
    if job is None and event.key:
        job = desk.store.jobs.get(desk.store.keys.get((event.principal, event.key), JobId("")))
    return job


def _again(desk: BrokerState, job: Job, event: JobSubmitted, digest: str) -> None:
    """Answer a job that was submitted before: the same run, the same answer."""
    if job.principal != event.principal:
        words = f"the job id {event.job} belongs to somebody else; use a new id"
        refuse(desk, event, Fault(FaultCode.CONFLICT, words))
        return
    if job.digest != digest or job.service != event.service:
        words = f"job {job.id} was submitted before with another body or service; use a new id"
        refuse(desk, event, Fault(FaultCode.CONFLICT, words))
        return
    if job.client != event.client or job.client_job_id != event.job:
        _adopt(desk, job, event)
    if job.is_final:
        _answer_again(desk, job)
    elif any(p.attempt or p.bound for p in job.parts):
        names = tuple(p.bound or p.worker for p in job.parts if p.bound or p.worker)
        desk.reply(job, ReplyKind.DISPATCHED, workers=names)
    else:
        desk.reply(job, ReplyKind.QUEUED)


def _adopt(desk: BrokerState, job: Job, event: JobSubmitted) -> None:
    """Send a job's replies to the client that asked for it last, under the id it asked by."""
    job.client = event.client
    desk.note_job(Kind.ADOPTED, job, detail=event.job if event.job != job.id else "")


def _answer_again(desk: BrokerState, job: Job) -> None:
    if len(job.parts) == 1:
        part = job.parts[0]
        desk.reply(
            job,
            ReplyKind.FINAL,
            part=part,
            body=part.body or EMPTY,
            fault=job.fault,
            state=job.state,
            seq=0 if part.body else part.result_seq,
        )
        return
    for part in job.parts:
        desk.reply(
            job,
            ReplyKind.PART,
            part=part,
            body=part.body or EMPTY,
            fault=part.fault,
            state=part.state,
            seq=0 if part.body else part.result_seq,
        )
    desk.reply(job, ReplyKind.FINAL, fault=job.fault, state=job.state)


def _refusal(desk: BrokerState, event: JobSubmitted) -> Fault | None:
    """Say why a submission cannot be taken in, if so."""
    if desk.is_draining:
        return Fault(FaultCode.DRAINING, "the broker is going down; submit again later")
    queue, limits = desk.queues.find(event.service), desk.limits
    if queue is not None and queue.jobs + len(queue.unbound) >= limits.queued_jobs:
        words = f"{queue.jobs} jobs wait for {event.service} already; submit again later"
        return Fault(FaultCode.QUEUE_FULL, words)
    if queue is not None and queue.bytes + event.body.size > limits.queued_bytes:
        words = f"{queue.bytes} bytes wait for {event.service} already; submit again later"
        return Fault(FaultCode.QUEUE_FULL, words)
    if event.terms.patience == 0 and not can_serve(desk, event.service, event.target, None):
        words = f"no worker for service {event.service} and target {event.target}"
        return Fault(FaultCode.NO_WORKER, words)
    return None


def refuse(desk: BrokerState, event: JobSubmitted, fault: Fault, is_recorded: bool = True) -> None:
    """Turn a submission down, on record."""
    if is_recorded:
        _note_refused(desk, event, fault)
    desk.out.append(
        SendReply(
            event.client,
            event.job,
            ReplyKind.FINAL,
            event.service,
            fault=fault,
            is_strict=event.terms.strict,
        )
    )


def _note_refused(desk: BrokerState, event: JobSubmitted, fault: Fault) -> None:
    desk.record(
        Record(
            desk.next_seq,
            desk.now,
            Kind.REFUSED,
            event.job,
            service=event.service,
            task=event.task,
            client=event.client,
            principal=event.principal,
            dialect=event.body.dialect or dialect_of(event.client),
            target=str(event.target),
            fault=fault.code,
            detail=fault.message,
            digest=event.body.digest(),
            strict=event.terms.strict,
        )
    )


def _take_in(desk: BrokerState, event: JobSubmitted, digest: str) -> Job:
    """Put a new job on the book."""
    terms = event.terms
    record = Record(
        desk.next_seq,
        desk.now,
        Kind.SUBMITTED,
        event.job,
        0,
        0,
        event.service,
        event.task,
        event.client,
        "",
        "",
        event.principal,
        event.body.dialect or dialect_of(event.client),
        str(event.target),
        "queued",
        "",
        "",
        event.body.size,
        digest,
        terms.priority,
        event.key,
        terms_text(terms),
        desk.now,
        desk.now + terms.timeout if terms.timeout is not None else 0.0,
        0,
        terms.strict,
    )
    job = Job(record, event.target, terms, event.body)
    desk.record(record, event.body, job)
    start_timers(desk, job)
    desk.reply(job, ReplyKind.QUEUED)
    return job


def start_timers(desk: BrokerState, job: Job) -> None:
    """Set a job's own deadlines."""
    if job.deadline_at:
        job.due = desk.deadlines.set(job.deadline_at, TimerKind.JOB, job)
    if job.terms.queue_timeout is not None:
        at = job.submitted_at + job.terms.queue_timeout
        job.queue_due = desk.deadlines.set(at, TimerKind.QUEUE, job)


def job_cancelled(desk: BrokerState, event: JobCancelled) -> None:
    """Stop a job: at once what waits, and what runs as soon as its worker confirms."""
    desk.touch_client(event.client)
    job = desk.store.find(event.job)
    if job is None or job.is_final:
        _answer(desk, event.client, event.job, RequestKind.CANCEL, job)
        return
    if job.cancellers is None:
        job.cancellers = {}
    job.cancellers[event.client] = event.job
    if job.cancel_asked_at:
        return
    seq = desk.note_job(Kind.CANCEL_ASKED, job, detail=f"by {event.client}")
    if not any(_can_confirm(desk, job)):
        _end_cancelled(desk, job)
        return
    for part in job.open_parts():
        if part.state is JobState.QUEUED:
            fault = Fault(FaultCode.CANCELLED, "cancelled before it started")
            end_part(desk, part, JobState.CANCELLED, fault)
        elif part.peer in desk.registry.workers:
            desk.out.append(
                SendCancel(part.peer, job.id, part.attempt, job.client, seq, job.terms.strict)
            )
    job.cancel_due = desk.deadlines.set(desk.now + job.terms.cancel_grace, TimerKind.CANCEL, job)


def _can_confirm(desk: BrokerState, job: Job) -> list[bool]:
    """Tell for each running part whether its worker will say that it stopped."""
    running = [p for p in job.parts if p.state is JobState.RUNNING]
    workers = [desk.registry.workers.get(p.peer) for p in running]
    return [w is not None and w.can_cancel for w in workers]


def _end_cancelled(desk: BrokerState, job: Job) -> None:
    """End a job that nobody will confirm: it never ran, or its worker cannot say."""
    if any(p.state is JobState.RUNNING for p in job.parts):
        words = "cancelled; its worker cannot confirm and may have gone on"
        fault = Fault(FaultCode.CANCEL_UNCONFIRMED, words)
    else:
        fault = Fault(FaultCode.CANCELLED, "cancelled before it started")
    end_job(desk, job, JobState.CANCELLED, fault)


def input_received(desk: BrokerState, event: InputReceived) -> None:
    """Pass a client's input on to the workers that run its job."""
    desk.touch_client(event.client)
    job = desk.store.find(event.job)
    running = [
        p
        for p in (job.parts if job else ())
        if p.state is JobState.RUNNING
        and p.peer in desk.registry.workers
        and event.worker in (None, p.worker)
    ]
    if job is None or not running:
        fault = Fault(FaultCode.UNKNOWN_JOB, f"job {event.job} does not run; input was not used")
        _answer(desk, event.client, event.job, RequestKind.INPUT, job, fault)
        return
    for part in running:
        desk.note(Kind.INPUT_GIVEN, part, body=event.body)
        desk.out.append(SendInput(part.peer, job.id, event.client, event.body, job.terms.strict))


def result_requested(desk: BrokerState, event: ResultRequested) -> None:
    """Say how a job stands, to anybody who asks."""
    desk.touch_client(event.client)
    _answer(desk, event.client, event.job, RequestKind.RESULT, desk.store.find(event.job))


def _answer(
    desk: BrokerState,
    client: str,
    job_id: str,
    asked: RequestKind,
    job: Job | None,
    fault: Fault | None = None,
) -> None:
    status = status_of(job) if job else None
    if job is None and fault is None:
        fault = Fault(FaultCode.UNKNOWN_JOB, f"job {job_id} is not known here")
    desk.out.append(
        SendStatus(
            client,  # type: ignore[arg-type]
            job_id,  # type: ignore[arg-type]
            asked,
            status,
            fault or (job.fault if job else None),
            job.terms.strict if job else False,
        )
    )
