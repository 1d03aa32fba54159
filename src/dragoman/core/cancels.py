"""Cancels: of one job, and down the tree, of the children of a job that ended or is cancelled."""

from dragoman.core.deadlines import TimerKind
from dragoman.core.effects import SendCancel
from dragoman.core.endings import end_job, end_part
from dragoman.core.jobs import Job
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.record import Kind


def cancel_job(state: BrokerState, job: Job, detail: str) -> None:
    """Cancel an open job: queued parts end now, running parts when their worker confirms."""
    if job.cancel_asked_at:
        return
    seq = state.record(Kind.CANCEL_ASKED, job, detail=detail)
    state.orphaning.append(job)
    if not any(_can_confirm(state, job)):
        _end_cancelled(state, job)
        return
    for part in job.open_parts():
        if part.state is JobState.QUEUED:
            fault = Fault(FaultCode.CANCELLED, "cancelled before it started")
            end_part(state, part, JobState.CANCELLED, fault)
        elif part.peer in state.registry.workers:
            state.out.append(
                SendCancel(part.peer, job.id, part.attempt, job.client, seq, job.terms.strict)
            )
    job.cancel_timer = state.deadlines.set(
        state.now + job.terms.cancel_grace, TimerKind.CANCEL, job
    )


def _can_confirm(state: BrokerState, job: Job) -> list[bool]:
    """Return for each running part whether its worker confirms cancels."""
    running = [p for p in job.parts if p.state is JobState.RUNNING]
    workers = [state.registry.workers.get(p.peer) for p in running]
    return [w is not None and w.can_cancel for w in workers]


def _end_cancelled(state: BrokerState, job: Job) -> None:
    """End a cancelled job that no worker confirms: it never ran, or its workers cannot."""
    if any(p.state is JobState.RUNNING for p in job.parts):
        message = "cancelled; its worker cannot confirm and may still run it"
        fault = Fault(FaultCode.CANCEL_UNCONFIRMED, message)
    else:
        fault = Fault(FaultCode.CANCELLED, "cancelled before it started")
    end_job(state, job, JobState.CANCELLED, fault)


def cancel_orphans(state: BrokerState) -> None:
    """Cancel the open children of jobs that are cancelled or ended without success.

    A loop, not a recursion: children of children follow in later rounds.
    """
    while state.orphaning:
        parent = state.orphaning.pop()
        for child in state.store.families.open_of(parent.id):
            verb = f"is {parent.state}" if parent.is_final else "is being cancelled"
            cancel_job(state, child, f"because its parent {parent.id} {verb}")
