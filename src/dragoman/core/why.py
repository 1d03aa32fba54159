"""`why JOB`: one reason out of a fixed list, with an explanation for people."""

from enum import StrEnum
from itertools import islice
from typing import Final

from dragoman.core.candidates import Candidate, candidates, format_capacity
from dragoman.core.dispatch import is_moving, is_served, waits_for_move
from dragoman.core.family_tree import is_deadlocked
from dragoman.core.jobs import Job, JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.value import value

#: Jobs that an explanation names.
_MOST_NAMED: Final = 5


class Reason(StrEnum):
    """Why a job is where it is."""

    UNKNOWN = "unknown"  #: never seen, or its retention is over
    DELAYED = "delayed"  #: it may not start yet
    PAUSED = "paused"  #: an operator paused the service
    DRAINED = "drained"  #: an operator drained every worker that could take it
    NO_SERVICE = "no_service"  #: no worker offers the service
    NO_MATCH = "no_match"  #: the service has workers, but none matches the target
    NO_CAPACITY = "no_capacity"  #: no worker has the capacity that the job needs
    #: every worker that could take it runs parents, which wait for queued children
    DEADLOCKED = "deadlocked"
    ALL_BUSY = "all_busy"  #: every worker that could take it is busy
    REFUSED_BY_ALL = "refused_by_all"  #: every free worker handed it back just now
    BACKING_OFF = "backing_off"  #: it failed or its worker was lost; its next attempt comes later
    RUNNING = "running"
    WAITING_FOR_INPUT = "waiting_for_input"  #: its worker asked the client for input
    WORKER_AWAY = "worker_away"  #: its worker left; the job waits for it to come back
    LIMITED = "limited"  #: a limit of its service, task or key is reached
    MOVING = "moving"  #: its resource moves between workers
    CANCELLING = "cancelling"  #: its worker has not confirmed the cancel
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    DEAD = "dead"


@value
class Why:
    """The answer: a reason, an explanation, and the worker concerned if there is one."""

    reason: Reason
    words: str
    worker: str = ""
    #: While it waits: the workers that could run it, and why each does not.
    candidates: tuple[Candidate, ...] = ()


def why(state: BrokerState, job_id: JobId) -> Why:
    """Explain why a job is in its state."""
    job = state.store.find(job_id)
    if job is None:
        return Why(Reason.UNKNOWN, f"job {job_id} is not known here, or its retention is over")
    if job.is_final:
        return _ended(job, state.gone(job))
    if job.cancel_asked_at:
        return Why(Reason.CANCELLING, "a cancel was requested; its worker has not confirmed yet")
    if job.start_timer is not None:
        wait = job.start_timer.at - state.now
        return Why(Reason.DELAYED, f"delayed at its submission; it may start in {wait:.1f} s")
    if not job.parts and waits_for_move(state, job):
        return Why(Reason.MOVING, f"{job.target} moves between workers; the job waits for that")
    if not job.parts:
        return _unserved(state, job, None)
    return _open(state, job)


def _ended(job: Job, gone: Fault | None) -> Why:
    took = job.ended_at - job.submitted_at
    words = f"{job.state} after {took:.3f} s"
    if len(job.parts) == 1 and job.parts[0].attempt > 1:
        words += f" and {job.parts[0].attempt} attempts"
    if job.fault is not None:
        words += f": {job.fault.message or job.fault.code}"
    if gone is not None:
        words += f"; {gone.message}"
    worker = job.parts[0].worker if len(job.parts) == 1 else ""
    return Why(Reason(job.state.value), words, worker)


def _open(state: BrokerState, job: Job) -> Why:
    """Explain the part that delays the job most: a queued one, else a running one."""
    parts = job.open_parts()
    part = next((p for p in parts if p.state is JobState.QUEUED), parts[0])
    found = _queued(state, part) if part.state is JobState.QUEUED else _running(state, part)
    if len(job.parts) > 1:
        done = len(job.parts) - len(parts)
        words = f"{done} of {len(job.parts)} parts done; {found.words}"
        return Why(found.reason, words, found.worker, found.candidates)
    return found


def _running(state: BrokerState, part: JobPart) -> Why:
    name = part.worker
    since = state.now - part.dispatched_at
    if part.peer in state.absent:
        return Why(Reason.WORKER_AWAY, f"{name} left; the job waits for it to come back", name)
    if part.is_waiting_for_input:
        return Why(Reason.WAITING_FOR_INPUT, f"{name} waits for input from the client", name)
    words = f"on {name} since {since:.1f} s, attempt {part.attempt}"
    if part.setback is not None:
        lost = part.losses - 1
        words += f" ({part.failures} failed, {lost} lost before)"
    if children := state.store.families.open_of(part.job.id):
        words += f"; {len(children)} of its child jobs are open"
    if part.refusals:
        words += f"; before that refused by {', '.join(sorted(part.refusals))}"
    return Why(Reason.RUNNING, words, name, candidates(state, part, ()) if part.refusals else ())


def _queued(state: BrokerState, part: JobPart) -> Why:
    job = part.job
    if part.queued_in is None and part.retry_timer is not None:
        wait = max(0.0, part.retry_timer.at - state.now)
        return Why(Reason.BACKING_OFF, f"{_setback(part)}; the next one starts in {wait:.1f} s")
    if not is_served(state, part):
        return _unserved(state, job, part)
    if part.service in state.store.queue.paused:
        reason = state.store.queue.paused[part.service]
        words = f"{part.service} is paused" + (f": {reason}" if reason else "")
        return Why(Reason.PAUSED, f"{words}; `dragoman resume {part.service}` resumes it")
    if (limit := limit_reached(state, part)) is not None:
        return Why(Reason.LIMITED, limit)
    if is_moving(state, part):
        return Why(Reason.MOVING, f"its resource is moving to {part.bound}", part.bound or "")
    able = _able(state, part)
    needs, asked = job.terms.needs, candidates(state, part, able)
    if able and all(w.is_drained for w in able):
        return Why(Reason.DRAINED, _drained(state, able), able[0].name, asked)
    if not any(w.capacity is None or w.capacity.holds(needs) for w in able):
        words = f"no worker of {part.service} has {format_capacity(needs)}"
        return Why(Reason.NO_CAPACITY, words, candidates=asked)
    refused = part.refused_by or set()
    if any(w.has_room and w.name in refused for w in able):
        reason_of = (part.refusals or {}).get
        names = ", ".join(f"{n} ({reason_of(n)})" if reason_of(n) else n for n in sorted(refused))
        words = f"handed back by {names}; offered again shortly"
        return Why(Reason.REFUSED_BY_ALL, words, candidates=asked)
    if is_deadlocked(state, part):
        words = (
            f"deadlock: every job on the {len(able)} workers of {part.service} waits for children "
            "that are queued; start another worker, or run parents and children in two services"
        )
        return Why(Reason.DEADLOCKED, words, candidates=asked)
    ahead = state.queues.of(part.service).jobs - 1
    words = f"all {len(able)} workers are busy; {ahead} other jobs wait for {part.service}"
    return Why(Reason.ALL_BUSY, words, candidates=asked)


def _drained(state: BrokerState, able: list[RegisteredWorker]) -> str:
    """Say which workers are drained, why, and how to go on."""
    names = sorted({w.name for w in able})
    reason = state.store.queue.drained.get(names[0], "")
    words = f"{names[0]} is drained" + (f": {reason}" if reason else "")
    if len(names) > 1:
        words = f"all {len(names)} workers that could take it are drained"
    return f"{words}; `dragoman undrain {names[0]}` lets it get jobs again"


def limit_reached(state: BrokerState, part: JobPart) -> str | None:
    """Say which limit a part waits for; None: for none."""
    blocking = state.limiters.blocking(state.limiters.rules_of(part), state.now)
    if blocking is None:
        return None
    limiter, limit = blocking
    name = limit.key or limiter.name
    if limiter.is_full(limit):
        jobs = ", ".join(p.job.id for p in islice(limiter.running, _MOST_NAMED))
        more = ", ..." if len(limiter.running) > _MOST_NAMED else ""
        count = f"{len(limiter.running)} of {limit.concurrency} running"
        return f"waits for the limit {name} ({count}: {jobs}{more})"
    wait = max(0.0, state.limiters.next_token(limiter, limit) - state.now)
    return f"waits for the limit {name} ({limit}); the next token comes in {wait:.1f} s"


def _setback(part: JobPart) -> str:
    """Say how the last attempt ended."""
    fault = part.setback
    if fault is None or fault.code is FaultCode.WORKER_LOST:
        return f"attempt {part.attempt} was lost"
    reason = (fault.message or fault.code).partition("\n")[0]
    return f"attempt {part.attempt} failed ({reason})"


def _able(state: BrokerState, part: JobPart) -> list[RegisteredWorker]:
    if part.bound:
        return state.registry.named(part.bound)
    wanted = part.queued_in.wanted if part.queued_in is not None else ()
    return state.registry.matching(part.service, wanted)


def _unserved(state: BrokerState, job: Job, part: JobPart | None) -> Why:
    service = part.service if part else job.service
    if not any(True for _ in state.registry.members(service)):
        return Why(Reason.NO_SERVICE, f"no worker offers {service}; start one")
    target = (part.bound or str(part.target)) if part else str(job.target)
    return Why(Reason.NO_MATCH, f"no worker of {service} matches {target}")
