"""The tree around a job, for people: its parent and children; and whether its parents deadlock."""

from collections import Counter
from itertools import islice
from typing import Final

from dragoman.core.jobs import Job, JobPart
from dragoman.core.state import BrokerState
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName
from dragoman.model.value import value

#: Children that are shown first: those that keep the parent waiting, then those that failed.
_ORDER: Final = {JobState.RUNNING: 0, JobState.QUEUED: 1, JobState.SUCCEEDED: 3}


@value
class ChildRow:
    """One child of a job."""

    position: int
    job: str
    service: str
    task: str
    state: str


@value
class FamilyTree:
    """The parent of a job, empty if it has none, and its children: some of them, and counts."""

    parent: str = ""
    position: int = 0
    children: tuple[ChildRow, ...] = ()
    #: All children in memory, by state.
    counts: tuple[tuple[str, int], ...] = ()


def family_tree(state: BrokerState, job_id: JobId, limit: int = 100) -> FamilyTree:
    """Return the parent and the children of a job."""
    job = state.store.find(job_id)
    if job is None:
        return FamilyTree()
    children = list(state.store.families.of(job.id))
    shown = sorted(children, key=lambda c: (_ORDER.get(c.state, 2), c.position))
    counts = Counter(child.state.value for child in children)
    return FamilyTree(
        job.parent,
        job.position,
        tuple(_row(child) for child in islice(shown, limit)),
        tuple(sorted(counts.items())),
    )


def _row(job: Job) -> ChildRow:
    return ChildRow(job.position, job.id, job.service, job.task, job.state.value)


def is_deadlocked(state: BrokerState, part: JobPart) -> bool:
    """Tell whether a queued part waits for parents that all wait for queued children.

    The broker does not know whether a task waits. A job with open children, all of them queued,
    looks like one that does.
    """
    return bool(part.job.parent) and _is_stuck(state, part.service, set())


def _is_stuck(state: BrokerState, service: ServiceName, assumed: set[ServiceName]) -> bool:
    """Tell whether every job on the workers of a service waits for children that are stuck."""
    if service in assumed:
        return True
    assumed.add(service)
    workers = list(state.registry.members(service))
    held = [part for worker in workers for part in worker.held.values()]
    if not held or any(worker.has_room for worker in workers):
        return False
    return all(_waits_for_stuck(state, part.job, assumed) for part in held)


def _waits_for_stuck(state: BrokerState, job: Job, assumed: set[ServiceName]) -> bool:
    children = state.store.families.open_of(job.id)
    parts = [part for child in children for part in child.open_parts()]
    is_waiting = bool(parts) and all(part.queued_in is not None for part in parts)
    return is_waiting and all(_is_stuck(state, part.service, assumed) for part in parts)
