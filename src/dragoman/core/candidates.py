"""Who could run a job that waits, and what stands in each one's way: for `why`.

A refusal is on record with its reason (a node's bid, say), so it is still known after a restart.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from dragoman.core.jobs import JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.capacity import Capacity
from dragoman.model.value import value

#: How many are spoken of; those that refused come first.
MOST: Final = 100


@value
class Candidate:
    """A worker that was asked or could be, and how it stands towards the job."""

    worker: str
    #: refused, lacks_capacity, full, busy, unreachable, draining, free or gone
    standing: str
    detail: str = ""


def candidates(
    desk: BrokerState, part: JobPart, able: Iterable[RegisteredWorker]
) -> tuple[Candidate, ...]:
    """Say of each worker what stands in its way."""
    refusals = part.refusals or {}
    found = {w.name: _standing(w, part) for w in able}
    asked = [
        Candidate(name, "refused" if name in found else "gone", f"refused: {words}")
        for name, words in refusals.items()
    ]
    others = [each for name, each in found.items() if name not in refusals]
    return tuple([*asked, *others][:MOST])


def _standing(worker: RegisteredWorker, part: JobPart) -> Candidate:
    name, needs, capacity = worker.name, part.job.terms.needs, worker.capacity
    if capacity is not None and not capacity.holds(needs):
        words = f"has {format_capacity(capacity)} in all; the job needs {format_capacity(needs)}"
        return Candidate(name, "lacks_capacity", words)
    if not worker.fits(needs) and capacity is not None:
        free = format_capacity(capacity.minus(worker.used))
        return Candidate(name, "full", f"has {free} free; the job needs {format_capacity(needs)}")
    if worker.is_draining:
        return Candidate(name, "draining", "is given no more work")
    if worker.is_blocked:
        return Candidate(name, "unreachable", "its transport takes no more")
    if not worker.has_room:
        return Candidate(name, "busy", f"holds {len(worker.held)} jobs")
    return Candidate(name, "free", "")


def format_capacity(capacity: Capacity) -> str:
    """Name the amounts that there are."""
    amounts = {each.name: getattr(capacity, each.name) for each in fields(capacity)}
    return (
        ", ".join(f"{name} {amount:g}" for name, amount in amounts.items() if amount) or "nothing"
    )
