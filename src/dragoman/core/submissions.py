"""Requests of clients: submit, cancel, input to a running job, status of a job."""

from dataclasses import replace

from dragoman.core.cancels import cancel_job
from dragoman.core.children import child_conflict, child_refusal, deadline_of, note_children
from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import can_serve, dispatch_job, fill_worker
from dragoman.core.effects import RequestKind, SendInput, SendReply, SendStatus
from dragoman.core.endings import end_job, end_memoized
from dragoman.core.events import (
    InputReceived,
    JobCancelled,
    JobSubmitted,
    LedgerBlocked,
    ReplyKind,
    ResultRequested,
)
from dragoman.core.jobs import Job, is_single, is_started
from dragoman.core.records import submitted_record
from dragoman.core.state import BrokerState, dialect_of, status_of
from dragoman.model.body import EMPTY
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName
from dragoman.model.record import Kind
from dragoman.model.unique import Unique


def job_submitted(state: BrokerState, event: JobSubmitted) -> None:
    """Accept a job, refuse it with a reason, or answer it as known."""
    state.touch_client(event.client).jobs += 1
    digest = event.body.digest()
    known = _known(state, event)
    if known is not None:
        _answer_known(state, known, event, digest)
        return
    if state.blocked_because and not _is_builtin(state, event.service):
        _refuse_unrecorded(state, event)
        return
    unique = event.terms.unique
    fault = _refusal(state, event)
    if fault is None and unique is not None:
        fault = _duplicate(state, event, unique)
    if fault is not None:
        refuse(state, event, fault)
        return
    replaced = None if unique is None else _replaced(state, event, unique)
    if replaced is not None:
        message = f"replaced by job {event.job}, which has the same unique key"
        end_job(state, replaced, JobState.CANCELLED, Fault(FaultCode.CANCELLED, message))
    job = _accept(state, event, digest)
    earlier = state.store.memo.get((job.service, digest)) if job.terms.memoize else None
    if earlier is not None and is_single(job) and state.gone(earlier) is None:
        end_memoized(state, job, earlier)
    else:
        dispatch_job(state, job)
        if _waits(job):
            state.reply(job, ReplyKind.QUEUED)
    if job.parent:
        for worker in note_children(state, job.parent):
            fill_worker(state, worker)


def _waits(job: Job) -> bool:
    """Tell whether a new job was not dispatched at once: then nothing has answered its client."""
    return job.state is JobState.QUEUED and not [part for part in job.parts if part.bound]


def _known(state: BrokerState, event: JobSubmitted) -> Job | None:
    job = state.store.find(event.job)
    if job is None and event.key:
        job = state.store.jobs.get(state.store.keys.get((event.principal, event.key), JobId("")))
    if job is None and event.terms.parent is not None:
        parent = event.terms.parent
        job = state.store.families.child_at(JobId(parent.job), parent.position)
    return job


def _answer_known(state: BrokerState, job: Job, event: JobSubmitted, digest: str) -> None:
    """Answer a job that was submitted before: one run, the same answer."""
    if event.terms.parent is not None:
        fault = child_conflict(state, job, event, event.terms.parent, digest)
        if fault is not None:
            refuse(state, event, fault)
            return
    elif job.principal != event.principal:
        message = f"job id {event.job} belongs to another principal; use a new id"
        refuse(state, event, Fault(FaultCode.CONFLICT, message))
        return
    elif job.digest != digest or job.service != event.service:
        message = f"job {job.id} was submitted before with another body or service; use a new id"
        refuse(state, event, Fault(FaultCode.CONFLICT, message))
        return
    if job.client != event.client or job.client_job_id != event.job:
        _adopt(state, job, event)
    if job.is_final:
        _answer_again(state, job)
    elif any(p.attempt or p.bound for p in job.parts):
        names = tuple(p.bound or p.worker for p in job.parts if p.bound or p.worker)
        state.reply(job, ReplyKind.DISPATCHED, workers=names)
    else:
        state.reply(job, ReplyKind.QUEUED)


def _adopt(state: BrokerState, job: Job, event: JobSubmitted) -> None:
    """Send a job's replies to the client that submitted it last, under the id it used."""
    job.client = event.client
    state.record(Kind.ADOPTED, job, detail=event.job if event.job != job.id else "")


def _answer_again(state: BrokerState, job: Job) -> None:
    gone = state.gone(job)
    if gone is not None:
        state.reply(job, ReplyKind.FINAL, fault=job.fault or gone, state=job.state)
        return
    if len(job.parts) == 1:
        part = job.parts[0]
        state.reply(
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
        state.reply(
            job,
            ReplyKind.PART,
            part=part,
            body=part.body or EMPTY,
            fault=part.fault,
            state=part.state,
            seq=0 if part.body else part.result_seq,
        )
    state.reply(job, ReplyKind.FINAL, fault=job.fault, state=job.state)


def ledger_blocked(state: BrokerState, event: LedgerBlocked) -> None:
    """Stop accepting jobs while the ledger takes no records. Afterwards, record the refusals."""
    state.blocked_because = event.reason
    if not event.reason and state.refused_while_blocked:
        count, state.refused_while_blocked = state.refused_while_blocked, 0
        detail = f"the ledger takes records again; {count} jobs were refused meanwhile"
        state.record(Kind.CHANGED, detail=detail)


def _is_builtin(state: BrokerState, service: ServiceName) -> bool:
    """Whether the broker itself offers a service: management works while nothing is recorded."""
    pool = state.registry.pools.get(service)
    return pool is not None and any(w.is_builtin for w in pool.members.values())


def _refuse_unrecorded(state: BrokerState, event: JobSubmitted) -> None:
    """Refuse a job that cannot be recorded. The refusal waits for no record, and is counted."""
    state.refused_while_blocked += 1
    message = f"the broker cannot record new jobs: {state.blocked_because}; submit again later"
    fault = Fault(FaultCode.UNAVAILABLE, message)
    final = ReplyKind.FINAL
    state.out.append(
        SendReply(event.client, event.job, final, event.service, fault=fault, is_strict=False)
    )


def _refusal(state: BrokerState, event: JobSubmitted) -> Fault | None:
    """Return why a submission is refused; None: it is accepted."""
    if state.is_draining:
        return Fault(FaultCode.DRAINING, "the broker is shutting down; submit again later")
    if event.terms.parent is not None:
        fault = child_refusal(state, event, event.terms.parent)
        if fault is not None:
            return fault
    queue, limits = state.queues.find(event.service), state.limits
    waiting = queue.jobs + len(queue.unbound) + len(queue.delayed) if queue is not None else 0
    if waiting >= limits.queued_jobs:
        message = f"{waiting} jobs wait for {event.service} already; submit again later"
        return Fault(FaultCode.QUEUE_FULL, message)
    if queue is not None and queue.bytes + event.body.size > limits.queued_bytes:
        message = f"{queue.bytes} bytes wait for {event.service} already; submit again later"
        return Fault(FaultCode.QUEUE_FULL, message)
    if (
        event.terms.patience == 0
        and event.terms.starts_at(state.now) <= state.now
        and not can_serve(state, event.service, event.target, None, event.terms.path)
    ):
        message = f"no worker for service {event.service} and target {event.target}"
        return Fault(FaultCode.NO_WORKER, message)
    return None


def _duplicate(state: BrokerState, event: JobSubmitted, unique: Unique) -> Fault | None:
    """Return a fault if another job has the unique key of a submission."""
    if unique.quiet:
        return None
    job_id, until = state.store.queue.uniques.holder((event.principal, unique.key))
    job = state.store.jobs.get(job_id)
    is_held = job is not None and not job.is_final
    if job is not None and unique.until == "start":
        is_held = is_held and not is_started(job)
    if not is_held and until <= state.now:
        return None
    message = f"job {job_id} has the unique key {unique.key}"
    return Fault(FaultCode.DUPLICATE, f"{message}; wait for its result or submit again later")


def _replaced(state: BrokerState, event: JobSubmitted, unique: Unique) -> Job | None:
    """Return the job that a submission with a quiet time replaces."""
    if not unique.quiet:
        return None
    job = state.store.jobs.get(state.store.queue.uniques.holder((event.principal, unique.key))[0])
    return None if job is None or job.is_final or is_started(job) else job


def refuse(state: BrokerState, event: JobSubmitted, fault: Fault, is_recorded: bool = True) -> None:
    """Refuse a submission and record that."""
    if is_recorded:
        _record_refused(state, event, fault)
    state.out.append(
        SendReply(
            event.client,
            event.job,
            ReplyKind.FINAL,
            event.service,
            fault=fault,
            is_strict=event.terms.strict,
        )
    )


def _record_refused(state: BrokerState, event: JobSubmitted, fault: Fault) -> None:
    state.record(
        Kind.REFUSED,
        failure=fault,
        job=event.job,
        service=event.service,
        task=event.task,
        client=event.client,
        principal=event.principal,
        dialect=event.body.dialect or dialect_of(event.client),
        target=str(event.target),
        digest=event.body.digest(),
        strict=event.terms.strict,
    )


def _accept(state: BrokerState, event: JobSubmitted, digest: str) -> Job:
    """Record a new job and start its timers."""
    terms, parent = event.terms, event.terms.parent
    if parent is not None:
        # Fields of the record keep it; terms without it are shared by many jobs.
        terms = replace(terms, parent=None)
    record = submitted_record(
        state.next_seq,
        state.now,
        event,
        terms,
        dialect=event.body.dialect or dialect_of(event.client),
        digest=digest,
        deadline_at=deadline_of(state, terms, parent),
    )
    job = Job(record, event.target, terms, event.body)
    state.append(record, event.body, job)
    start_timers(state, job)
    return job


def start_timers(state: BrokerState, job: Job) -> None:
    """Start a job's timers."""
    if job.deadline_at:
        job.deadline_timer = state.deadlines.set(job.deadline_at, TimerKind.JOB, job)
    if job.terms.queue_timeout is not None:
        at = job.starts_at + job.terms.queue_timeout
        job.queue_timer = state.deadlines.set(at, TimerKind.QUEUE, job)


def job_cancelled(state: BrokerState, event: JobCancelled) -> None:
    """Cancel a job: queued parts end now, running parts when their worker confirms."""
    state.touch_client(event.client)
    job = state.store.find(event.job)
    if job is None or job.is_final:
        _answer(state, event.client, event.job, RequestKind.CANCEL, job)
        return
    if job.cancellers is None:
        job.cancellers = {}
    job.cancellers[event.client] = event.job
    cancel_job(state, job, f"by {event.client}")


def input_received(state: BrokerState, event: InputReceived) -> None:
    """Send a client's input to the workers that run its job."""
    state.touch_client(event.client)
    job = state.store.find(event.job)
    running = [
        p
        for p in (job.parts if job else ())
        if p.state is JobState.RUNNING
        and p.peer in state.registry.workers
        and event.worker in (None, p.worker)
    ]
    if job is None or not running:
        fault = Fault(
            FaultCode.UNKNOWN_JOB, f"job {event.job} is not running; the input was discarded"
        )
        _answer(state, event.client, event.job, RequestKind.INPUT, job, fault)
        return
    for part in running:
        state.record(Kind.INPUT_GIVEN, part, body=event.body)
        state.out.append(SendInput(part.peer, job.id, event.client, event.body, job.terms.strict))


def result_requested(state: BrokerState, event: ResultRequested) -> None:
    """Answer any client with the status of a job."""
    state.touch_client(event.client)
    _answer(state, event.client, event.job, RequestKind.RESULT, state.store.find(event.job))


def _answer(
    state: BrokerState,
    client: str,
    job_id: str,
    asked: RequestKind,
    job: Job | None,
    fault: Fault | None = None,
) -> None:
    status = status_of(job, state.gone(job)) if job else None
    if job is None and fault is None:
        fault = Fault(FaultCode.UNKNOWN_JOB, f"job {job_id} is not known here")
    state.out.append(
        SendStatus(
            client,  # type: ignore[arg-type]
            job_id,  # type: ignore[arg-type]
            asked,
            status,
            fault or (status.fault if status else None),
            job.terms.strict if job else False,
        )
    )
