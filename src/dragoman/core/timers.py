"""What happens when time passes: one function for each thing that can be due."""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import can_serve, enqueue, serve_part
from dragoman.core.effects import SendBeat
from dragoman.core.endings import end_job, end_part, forget_finished
from dragoman.core.events import TimeAdvanced
from dragoman.core.jobs import Job, JobPart
from dragoman.core.ownership import announce, settle_unconfirmed
from dragoman.core.rebinding import follow
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.core.workers import dismiss_worker, lose_absent
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState


def time_advanced(desk: BrokerState, event: TimeAdvanced) -> None:
    """Do everything that is due by now."""
    while (found := desk.deadlines.pop_due(desk.now)) is not None:
        due, about = found
        _TABLE[due](desk, about)
    forget_finished(desk)


def _job_expired(desk: BrokerState, job: Job) -> None:
    words = f"not finished within {job.terms.timeout:g} s of its submission"
    end_job(desk, job, JobState.EXPIRED, Fault(FaultCode.JOB_TIMEOUT, words))


def _queue_expired(desk: BrokerState, job: Job) -> None:
    """Expire what still waits of a job; what was given out once is past its queueing."""
    fault = Fault(
        FaultCode.QUEUE_TIMEOUT, f"waited {job.terms.queue_timeout:g} s for {job.service}"
    )
    if not job.parts:
        end_job(desk, job, JobState.EXPIRED, fault)
    job.queue_due = None
    for part in job.open_parts():
        if part.state is JobState.QUEUED and part.attempt == 0:
            end_part(desk, part, JobState.EXPIRED, fault)


def _unbound(desk: BrokerState, job: Job) -> None:
    job.unbound_due = None
    if not job.parts:
        end_job(desk, job, JobState.EXPIRED, _nobody(job, str(job.target)))


def _unserved(desk: BrokerState, part: JobPart) -> None:
    """Expire a part whose patience ended, unless somebody has come in the meantime."""
    part.patience = None
    if part.state is JobState.QUEUED and not can_serve(desk, part.service, part.target, part.bound):
        end_part(desk, part, JobState.EXPIRED, _nobody(part.job, part.bound or ""))


def _nobody(job: Job, who: str) -> Fault:
    whom = f" {who}" if who and who != "any" else ""
    words = f"no worker{whom} for service {job.service} within {job.terms.patience:g} s"
    return Fault(FaultCode.NO_WORKER, words)


def _retry(desk: BrokerState, part: JobPart) -> None:
    """Offer a part again after its back-off, also to those who refused it before."""
    part.retry = None
    part.refused_by = None
    if part.state is not JobState.QUEUED:
        return
    if part.queued_in is None:
        follow(desk, part)
        enqueue(desk, part)
    else:
        serve_part(desk, part)


def _run_out(desk: BrokerState, part: JobPart) -> None:
    """Expire an attempt that ran too long."""
    part.runs_out = None
    words = f"{part.worker} did not finish within {part.job.terms.run_timeout:g} s"
    end_part(desk, part, JobState.EXPIRED, Fault(FaultCode.RUN_TIMEOUT, words), stop=True)


def _cancel_unconfirmed(desk: BrokerState, job: Job) -> None:
    job.cancel_due = None
    words = "cancelled; its worker did not confirm in time and may have gone on"
    end_job(desk, job, JobState.CANCELLED, Fault(FaultCode.CANCEL_UNCONFIRMED, words))


def _check_lease(desk: BrokerState, worker: RegisteredWorker) -> None:
    """Lose a worker that was silent for its whole lease; otherwise look again later."""
    assert worker.lease is not None
    until = worker.seen_at + worker.lease
    if desk.now >= until:
        dismiss_worker(desk, worker, f"silent for {desk.now - worker.seen_at:.1f} s")
    else:
        worker.lease_due = desk.deadlines.set(until, TimerKind.LEASE, worker)


def _send_beat(desk: BrokerState, worker: RegisteredWorker) -> None:
    assert worker.beat_every is not None
    desk.out.append(SendBeat(worker.peer))
    worker.beat_due = desk.deadlines.set(desk.now + worker.beat_every, TimerKind.BEAT, worker)


_TABLE: Final[dict[TimerKind, Callable[[BrokerState, Any], None]]] = {
    TimerKind.JOB: _job_expired,
    TimerKind.QUEUE: _queue_expired,
    TimerKind.UNBOUND: _unbound,
    TimerKind.PATIENCE: _unserved,
    TimerKind.RETRY: _retry,
    TimerKind.RUN: _run_out,
    TimerKind.CANCEL: _cancel_unconfirmed,
    TimerKind.LEASE: _check_lease,
    TimerKind.BEAT: _send_beat,
    TimerKind.ABSENCE: lose_absent,
    TimerKind.ANNOUNCE: announce,
    TimerKind.MOVE: settle_unconfirmed,
}
