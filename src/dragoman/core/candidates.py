"""For `why`: the workers that could run a waiting job, and why each does not.

A refusal is recorded with its reason (for example a node's bid), so it survives a restart.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from dragoman.core.jobs import JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.capacity import Capacity
from dragoman.model.value import value

#: Candidates listed at most; those that refused come first.
MAX_CANDIDATES: Final = 100


@value
class Candidate:
    """A worker that was offered the job or could be, and why it does not run it."""

    worker: str
    #: refused, lacks_capacity, full, busy, unreachable, drained, draining, free or gone
    standing: str
    detail: str = ""


def candidates(
    state: BrokerState, part: JobPart, able: Iterable[RegisteredWorker]
) -> tuple[Candidate, ...]:
    """List workers with the reason why each does not run the part."""
    refusals = part.refusals or {}
    found = {w.name: _standing(w, part) for w in able}
    asked = [
        Candidate(name, "refused" if name in found else "gone", f"refused: {reason}")
        for name, reason in refusals.items()
    ]
    others = [each for name, each in found.items() if name not in refusals]
    return tuple([*asked, *others][:MAX_CANDIDATES])


def _standing(worker: RegisteredWorker, part: JobPart) -> Candidate:
    name, needs, capacity = worker.name, part.job.terms.needs, worker.capacity
    if capacity is not None and not capacity.holds(needs):
        detail = f"has {format_capacity(capacity)} in total; the job needs {format_capacity(needs)}"
        return Candidate(name, "lacks_capacity", detail)
    if not worker.fits(needs) and capacity is not None:
        free = format_capacity(capacity.minus(worker.used))
        return Candidate(name, "full", f"has {free} free; the job needs {format_capacity(needs)}")
    if worker.is_drained:
        return Candidate(name, "drained", f"`dragoman undrain {name}` lets it get jobs again")
    if worker.is_draining:
        return Candidate(name, "draining", "is draining and gets no more jobs")
    if worker.is_blocked:
        return Candidate(name, "unreachable", "its connection accepts no more messages")
    if not worker.has_room:
        return Candidate(name, "busy", f"holds {len(worker.held)} jobs")
    return Candidate(name, "free", "")


def format_capacity(capacity: Capacity) -> str:
    """Write the amounts that are not zero."""
    amounts = {each.name: getattr(capacity, each.name) for each in fields(capacity)}
    return (
        ", ".join(f"{name} {amount:g}" for name, amount in amounts.items() if amount) or "nothing"
    )
