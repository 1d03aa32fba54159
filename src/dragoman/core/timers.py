"""What happens when time passes: one function for each thing that can be due."""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.deadlines import Due
from dragoman.core.desk import Desk
from dragoman.core.dispatch import can_serve, enqueue, serve_part
from dragoman.core.effects import SendBeat
from dragoman.core.endings import end_job, end_part, forget_finished
from dragoman.core.events import TimeAdvanced
from dragoman.core.jobs import Job, Part
from dragoman.core.moving import follow
from dragoman.core.ownership import announce, time_to_settle
from dragoman.core.registry import Worker
from dragoman.core.workers import lose, lose_absent
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState


def time_advanced(desk: Desk, event: TimeAdvanced) -> None:
    """Do everything that is due by now."""
    while (found := desk.deadlines.pop_due(desk.now)) is not None:
        due, about = found
        _TABLE[due](desk, about)
    forget_finished(desk)


def _job_expired(desk: Desk, job: Job) -> None:
    words = f"not finished within {job.terms.timeout:g} s of its submission"
    end_job(desk, job, JobState.EXPIRED, Fault(FaultCode.JOB_TIMEOUT, words))


def _queue_expired(desk: Desk, job: Job) -> None:
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


def _unbound(desk: Desk, job: Job) -> None:
    job.unbound_due = None
    if not job.parts:
        end_job(desk, job, JobState.EXPIRED, _nobody(job, str(job.target)))


def _unserved(desk: Desk, part: Part) -> None:
    """Expire a part whose patience ended, unless somebody has come in the meantime."""
    part.patience = None
    if part.state is JobState.QUEUED and not can_serve(desk, part.service, part.target, part.bound):
        end_part(desk, part, JobState.EXPIRED, _nobody(part.job, part.bound or ""))


def _nobody(job: Job, who: str) -> Fault:
    whom = f" {who}" if who and who != "any" else ""
    words = f"no worker{whom} for service {job.service} within {job.terms.patience:g} s"
    return Fault(FaultCode.NO_WORKER, words)


def _retry(desk: Desk, part: Part) -> None:
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


def _run_out(desk: Desk, part: Part) -> None:
    """Expire an attempt that ran too long."""
    part.runs_out = None
    words = f"{part.worker} did not finish within {part.job.terms.run_timeout:g} s"
    end_part(desk, part, JobState.EXPIRED, Fault(FaultCode.RUN_TIMEOUT, words), stop=True)


def _cancel_unconfirmed(desk: Desk, job: Job) -> None:
    job.cancel_due = None
    words = "cancelled; its worker did not confirm in time and may have gone on"
    end_job(desk, job, JobState.CANCELLED, Fault(FaultCode.CANCEL_UNCONFIRMED, words))


def _check_lease(desk: Desk, worker: Worker) -> None:
    """Lose a worker that was silent for its whole lease; otherwise look again later."""
    assert worker.lease is not None
    until = worker.seen_at + worker.lease
    if desk.now >= until:
        lose(desk, worker, f"silent for {desk.now - worker.seen_at:.1f} s")
    else:
        worker.lease_due = desk.deadlines.set(until, Due.LEASE, worker)


def _send_beat(desk: Desk, worker: Worker) -> None:
    assert worker.beat_every is not None
    desk.out.append(SendBeat(worker.peer))
    worker.beat_due = desk.deadlines.set(desk.now + worker.beat_every, Due.BEAT, worker)


_TABLE: Final[dict[Due, Callable[[Desk, Any], None]]] = {
    Due.JOB: _job_expired,
    Due.QUEUE: _queue_expired,
    Due.UNBOUND: _unbound,
    Due.PATIENCE: _unserved,
    Due.RETRY: _retry,
    Due.RUN: _run_out,
    Due.CANCEL: _cancel_unconfirmed,
    Due.LEASE: _check_lease,
    Due.BEAT: _send_beat,
    Due.ABSENCE: lose_absent,
    Due.ANNOUNCE: announce,
    Due.MOVE: time_to_settle,
}
