"""Planted bugs of workflows: a child is repeated, forgotten, or goes on without its parent."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from dragoman.core import broker, children, submissions
from dragoman.core.events import JobSubmitted
from dragoman.core.families import Families
from dragoman.core.jobs import Job
from dragoman.core.state import BrokerState
from dragoman.model.parent import Parent
from dragoman.model.terms import Terms
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def child_repeated_after_a_rerun() -> Iterator[None]:
    """A parent that runs again under another attempt gets new children."""

    def known(state: BrokerState, event: JobSubmitted) -> Job | None:
        found = old(state, event)
        return None if found is not None and found.parent and found.is_final else found

    old = submissions._known
    with replaced(submissions, "_known", known):
        yield


@BUGS.add
def cancel_that_does_not_pass_down() -> Iterator[None]:
    """The children of a job that is cancelled, or failed, go on."""
    with replaced(broker, "cancel_orphans", lambda state: state.orphaning.clear()):
        yield


@BUGS.add
def child_outlives_the_deadline_of_its_parent() -> Iterator[None]:
    """A child has its own deadline only."""

    def deadline_of(state: BrokerState, terms: Terms, given: Parent | None) -> float:
        return old(state, terms, None)

    old = children.deadline_of
    with replaced(submissions, "deadline_of", deadline_of):
        yield


@BUGS.add
def result_of_a_child_forgotten_while_its_parent_runs() -> Iterator[None]:
    """A child that ended is a finished job at once, so that retention may remove it."""

    def ended(self: Families, job: Job, finish: Callable[[Job], None]) -> None:
        old(self, job, finish)
        if self.held.pop(job.id, None) is not None:
            finish(job)

    old: Any = Families.ended
    with replaced(Families, "ended", ended):
        yield
