"""Child jobs: who may submit one, when it is the same as before, and how long it may take."""

from dragoman.core.events import JobSubmitted
from dragoman.core.jobs import Job
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.parent import Parent
from dragoman.model.terms import Terms


def child_refusal(state: BrokerState, event: JobSubmitted, given: Parent) -> Fault | None:
    """Return why a new child is refused; None: it is accepted."""
    parent = state.store.find(JobId(given.job))
    if parent is None:
        return Fault(FaultCode.UNKNOWN_JOB, f"its parent, job {given.job}, is not known here")
    if parent.is_final or parent.cancel_asked_at or parent.state is not JobState.RUNNING:
        reason = "is being cancelled" if parent.cancel_asked_at else f"is {parent.state}"
        message = f"its parent, job {parent.id}, {reason}: it can have no new child"
        return Fault(FaultCode.CANCELLED, message)
    if not _is_worker_of(state, parent, event):
        return _not_its_worker(state, parent, event)
    if state.store.families.depth(parent) + 1 >= state.limits.nesting:
        message = f"{state.limits.nesting} jobs stand above it, from parent to child, already"
        return Fault(FaultCode.TOO_MANY_HOPS, message)
    return None


def _is_worker_of(state: BrokerState, parent: Job, event: JobSubmitted) -> bool:
    """Tell whether the submitter is the principal of a worker that runs the parent."""
    holders = (state.holder(p) for p in parent.parts if p.state is JobState.RUNNING)
    return any(w is not None and w.principal == event.principal for w in holders)


def _not_its_worker(state: BrokerState, parent: Job, event: JobSubmitted) -> Fault:
    if any(p.peer in state.absent for p in parent.parts):
        message = f"the worker of its parent, job {parent.id}, is away; submit again later"
        return Fault(FaultCode.UNAVAILABLE, message)
    message = f"{event.principal} runs no part of job {parent.id}, so it cannot add children to it"
    return Fault(FaultCode.DENIED, message)


def child_conflict(
    state: BrokerState, known: Job, event: JobSubmitted, given: Parent, digest: str
) -> Fault | None:
    """Return why a submission is not the child that is known at its position; None: it is."""
    parent = state.store.find(JobId(given.job))
    is_worker = parent is not None and _is_worker_of(state, parent, event)
    if (known.parent, known.position) != (given.job, given.position):
        message = f"job {known.id} is not child {given.position} of {given.job}; use a new id"
        return Fault(FaultCode.CONFLICT, message)
    if state.store.families.child_at(JobId(given.job), given.position) is not known:
        message = f"child {given.position} of job {given.job} failed as {known.id}; use a new id"
        return Fault(FaultCode.CONFLICT, message)
    if known.principal != event.principal and not is_worker:
        message = f"child {given.position} of job {given.job} belongs to another principal"
        return Fault(FaultCode.CONFLICT, message)
    # Another dialect writes the same arguments in other bytes: then only the names are compared.
    is_same = known.dialect != event.body.dialect or known.digest == digest
    if is_same and (known.service, known.task) == (event.service, event.task):
        return None
    message = (
        f"child {given.position} of job {given.job} was {_name(known.service, known.task)} before "
        f"and is {_name(event.service, event.task)} now, or has other arguments: the task is not "
        "deterministic; number its children with `position`"
    )
    return Fault(FaultCode.NOT_DETERMINISTIC, message)


def _name(service: str, task: str) -> str:
    return f"{service}.{task}" if task else service


def note_children(state: BrokerState, parent_id: JobId) -> list[RegisteredWorker]:
    """Let the workers of a parent have another job while it has open children; return them."""
    parent = state.store.jobs.get(parent_id)
    found = []
    for part in parent.parts if parent else ():
        worker = state.registry.workers.get(part.peer)
        if worker is not None and part.key in worker.held:
            has_open = state.store.families.has_open(parent_id)
            state.registry.note_children(worker, part, has_open)
            found.append(worker)
    return found


def deadline_of(state: BrokerState, terms: Terms, given: Parent | None) -> float:
    """Return when a new job expires, not after its parent; 0: never."""
    starts_at = terms.starts_at(state.now)
    own = 0.0 if terms.timeout is None else starts_at + terms.timeout
    parent = state.store.find(JobId(given.job)) if given else None
    if parent is None or not parent.deadline_at:
        return own
    return min(own, parent.deadline_at) if own else parent.deadline_at
