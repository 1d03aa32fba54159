"""`why JOB`: one answer out of a fixed list, with the words a person needs."""

from enum import StrEnum

from dragoman.core.candidates import Candidate, candidates, format_capacity
from dragoman.core.dispatch import can_serve, is_held, is_moving
from dragoman.core.jobs import Job, JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.value import value


class Reason(StrEnum):
    """Why a job is where it is."""

    UNKNOWN = "unknown"  #: never seen, or its retention is over
    NO_SERVICE = "no_service"  #: nobody offers the service
    NO_MATCH = "no_match"  #: the service is there, but nobody whom the target means
    NO_CAPACITY = "no_capacity"  #: workers are there, but none has what the job needs
    ALL_BUSY = "all_busy"  #: every worker that could take it has its hands full
    REFUSED_BY_ALL = "refused_by_all"  #: whoever is free handed it back just now
    BACKING_OFF = "backing_off"  #: its worker was lost; it waits before the next attempt
    RUNNING = "running"
    WAITING_FOR_INPUT = "waiting_for_input"  #: its worker asked the client something
    WORKER_AWAY = "worker_away"  #: its worker left; the job waits for it to come back
    MOVING = "moving"  #: the resource it is for is changing hands
    CANCELLING = "cancelling"  #: its worker was told to stop and has not confirmed
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    DEAD = "dead"


@value
class Why:
    """The answer: the reason, words for a person, and the worker concerned if there is one."""

    reason: Reason
    words: str
    worker: str = ""
    #: While it waits: who was asked or could be, and what stands in each one's way.
    candidates: tuple[Candidate, ...] = ()


def why(desk: BrokerState, job_id: JobId) -> Why:
    """Say why a job is where it is."""
    job = desk.store.find(job_id)
    if job is None:
        return Why(Reason.UNKNOWN, f"job {job_id} is not known here, or its retention is over")
    if job.is_final:
        return _ended(job)
    if job.cancel_asked_at:
        return Why(Reason.CANCELLING, "cancel was asked; its worker has not confirmed yet")
    if not job.parts and is_held(desk, job):
        return Why(Reason.MOVING, f"{job.target} is changing hands; it is bound when that is over")
    if not job.parts:
        return _unserved(desk, job, None)
    return _open(desk, job)


def _ended(job: Job) -> Why:
    took = job.ended_at - job.submitted_at
    words = f"{job.state} after {took:.3f} s"
    if job.fault is not None:
        words += f": {job.fault.message or job.fault.code}"
    worker = job.parts[0].worker if len(job.parts) == 1 else ""
    return Why(Reason(job.state.value), words, worker)


def _open(desk: BrokerState, job: Job) -> Why:
    """Speak of the part that holds the job up most: one that waits, else one that runs."""
    parts = job.open_parts()
    part = next((p for p in parts if p.state is JobState.QUEUED), parts[0])
    found = _queued(desk, part) if part.state is JobState.QUEUED else _running(desk, part)
    if len(job.parts) > 1:
        done = len(job.parts) - len(parts)
        words = f"{done} of {len(job.parts)} parts done; {found.words}"
        return Why(found.reason, words, found.worker, found.candidates)
    return found


def _running(desk: BrokerState, part: JobPart) -> Why:
    name = part.worker
    since = desk.now - part.dispatched_at
    if part.peer in desk.absent:
        return Why(Reason.WORKER_AWAY, f"{name} left; waiting for it to come back", name)
    if part.is_waiting_for_input:
        return Why(Reason.WAITING_FOR_INPUT, f"{name} waits for the client's answer", name)
    words = f"on {name} since {since:.1f} s, attempt {part.attempt}"
    if part.refusals:
        words += f"; before that refused by {', '.join(sorted(part.refusals))}"
    return Why(Reason.RUNNING, words, name, candidates(desk, part, ()) if part.refusals else ())


def _queued(desk: BrokerState, part: JobPart) -> Why:
    job = part.job
    if part.queued_in is None and part.retry is not None:
        wait = max(0.0, part.retry.at - desk.now)
        words = f"attempt {part.attempt} was lost; trying again in {wait:.1f} s"
        return Why(Reason.BACKING_OFF, words)
    if not can_serve(desk, part.service, part.target, part.bound):
        return _unserved(desk, job, part)
    if is_moving(desk, part):
        return Why(Reason.MOVING, f"its resource is moving to {part.bound}", part.bound or "")
    able = _able(desk, part)
    needs, asked = job.terms.needs, candidates(desk, part, able)
    if not any(w.capacity is None or w.capacity.holds(needs) for w in able):
        words = f"no worker of {part.service} has {format_capacity(needs)}"
        return Why(Reason.NO_CAPACITY, words, candidates=asked)
    refused = part.refused_by or set()
    if any(w.has_room and w.name in refused for w in able):
        said = (part.refusals or {}).get
        names = ", ".join(f"{n} ({said(n)})" if said(n) else n for n in sorted(refused))
        words = f"handed back by {names}; offered again shortly"
        return Why(Reason.REFUSED_BY_ALL, words, candidates=asked)
    ahead = desk.queues.of(part.service).jobs - 1
    words = f"all {len(able)} workers are busy; {ahead} other jobs wait for {part.service}"
    return Why(Reason.ALL_BUSY, words, candidates=asked)


def _able(desk: BrokerState, part: JobPart) -> list[RegisteredWorker]:
    if part.bound:
        return desk.registry.named(part.bound)
    wanted = part.queued_in.wanted if part.queued_in is not None else ()
    return desk.registry.matching(part.service, wanted)


def _unserved(desk: BrokerState, job: Job, part: JobPart | None) -> Why:
    service = part.service if part else job.service
    if not any(True for _ in desk.registry.members(service)):
        return Why(Reason.NO_SERVICE, f"no worker offers {service}; start one")
    whom = (part.bound or str(part.target)) if part else str(job.target)
    return Why(Reason.NO_MATCH, f"no worker of {service} matches {whom}")
