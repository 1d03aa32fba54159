"""Timers: one function for each kind of timer that can be due."""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import dispatch_job, enqueue, is_served, serve_part
from dragoman.core.effects import SendBeat
from dragoman.core.endings import end_job, end_part, forget_finished, retry_or_end
from dragoman.core.events import TimeAdvanced
from dragoman.core.jobs import Job, JobPart
from dragoman.core.limiters import Limiter
from dragoman.core.ownership import announce, settle_unconfirmed
from dragoman.core.rebinding import rebind
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.core.workers import dismiss_worker, give_up_absent
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState


def time_advanced(state: BrokerState, event: TimeAdvanced) -> None:
    """Fire every timer that is due."""
    while (found := state.deadlines.pop_due(state.now)) is not None:
        due, about = found
        _TABLE[due](state, about)
    forget_finished(state)


def _job_expired(state: BrokerState, job: Job) -> None:
    if job.terms.timeout is None or job.deadline_at < job.starts_at + job.terms.timeout:
        fault = Fault(FaultCode.JOB_TIMEOUT, f"the deadline of its parent {job.parent} passed")
    elif any(part.attempt for part in job.parts):
        message = f"not finished within {job.terms.timeout:g} s of its submission"
        fault = Fault(FaultCode.JOB_TIMEOUT, message)
    else:
        # No worker ever got it, so the caller may repeat it without fear.
        message = f"waited {job.terms.timeout:g} s for a worker of service {job.service}"
        fault = Fault(FaultCode.QUEUE_TIMEOUT, message)
    end_job(state, job, JobState.EXPIRED, fault)


def _start(state: BrokerState, job: Job) -> None:
    """Dispatch a job whose delay is over."""
    job.start_timer = None
    state.queues.undelay(job)
    dispatch_job(state, job)


def _queue_expired(state: BrokerState, job: Job) -> None:
    """Expire the parts of a job that were never dispatched."""
    fault = Fault(
        FaultCode.QUEUE_TIMEOUT, f"waited {job.terms.queue_timeout:g} s for {job.service}"
    )
    if not job.parts:
        end_job(state, job, JobState.EXPIRED, fault)
    job.queue_timer = None
    for part in job.open_parts():
        if part.state is JobState.QUEUED and part.attempt == 0:
            end_part(state, part, JobState.EXPIRED, fault)


def _unbound(state: BrokerState, job: Job) -> None:
    job.unbound_timer = None
    if not job.parts:
        end_job(state, job, JobState.EXPIRED, _no_worker(job, str(job.target)))


def _unserved(state: BrokerState, part: JobPart) -> None:
    """Expire a part whose patience ended, unless a worker has registered since."""
    part.patience_timer = None
    if part.state is JobState.QUEUED and not is_served(state, part):
        end_part(state, part, JobState.EXPIRED, _no_worker(part.job, part.bound or ""))


def _no_worker(job: Job, name: str) -> Fault:
    named = f" {name}" if name and name != "any" else ""
    message = f"no worker{named} for service {job.service} within {job.terms.patience:g} s"
    return Fault(FaultCode.NO_WORKER, message)


def _retry(state: BrokerState, part: JobPart) -> None:
    """Offer a part again after its back-off, also to workers that refused it."""
    part.retry_timer = None
    part.refused_by = None
    if part.state is not JobState.QUEUED:
        return
    if part.queued_in is None:
        rebind(state, part)
        enqueue(state, part)
    else:
        serve_part(state, part)


def _token(state: BrokerState, limiter: Limiter) -> None:
    """Let the parts that waited for a token start."""
    limiter.timer = None
    state.limiters.reopen(limiter)


def _run_out(state: BrokerState, part: JobPart) -> None:
    """Expire an attempt that exceeded its run timeout."""
    part.run_timer = None
    message = f"{part.worker} did not finish within {part.job.terms.run_timeout:g} s"
    retry_or_end(state, part, JobState.EXPIRED, Fault(FaultCode.RUN_TIMEOUT, message), stop=True)


def _cancel_unconfirmed(state: BrokerState, job: Job) -> None:
    job.cancel_timer = None
    message = "cancelled; its worker did not confirm in time and may still run it"
    end_job(state, job, JobState.CANCELLED, Fault(FaultCode.CANCEL_UNCONFIRMED, message))


def _result_expired(state: BrokerState, job: Job) -> None:
    """Drop a result from memory. Answers do not wait for this timer; see `core.results`."""
    job.result_timer = None
    state.drop_cached_result(job)


def _check_lease(state: BrokerState, worker: RegisteredWorker) -> None:
    """Dismiss a worker that was silent for its whole lease; else check again later."""
    assert worker.lease is not None
    until = worker.seen_at + worker.lease
    if state.now >= until:
        dismiss_worker(state, worker, f"silent for {state.now - worker.seen_at:.1f} s")
    else:
        worker.lease_timer = state.deadlines.set(until, TimerKind.LEASE, worker)


def _send_beat(state: BrokerState, worker: RegisteredWorker) -> None:
    assert worker.beat_every is not None
    worker.beats_sent += 1
    state.out.append(SendBeat(worker.peer))
    worker.beat_timer = state.deadlines.set(state.now + worker.beat_every, TimerKind.BEAT, worker)


_TABLE: Final[dict[TimerKind, Callable[[BrokerState, Any], None]]] = {
    TimerKind.JOB: _job_expired,
    TimerKind.START: _start,
    TimerKind.QUEUE: _queue_expired,
    TimerKind.UNBOUND: _unbound,
    TimerKind.PATIENCE: _unserved,
    TimerKind.RETRY: _retry,
    TimerKind.TOKEN: _token,
    TimerKind.RUN: _run_out,
    TimerKind.CANCEL: _cancel_unconfirmed,
    TimerKind.RESULT: _result_expired,
    TimerKind.LEASE: _check_lease,
    TimerKind.BEAT: _send_beat,
    TimerKind.ABSENCE: give_up_absent,
    TimerKind.ANNOUNCE: announce,
    TimerKind.MOVE: settle_unconfirmed,
}
