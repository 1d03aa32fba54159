"""The checker of parents and children finds what breaks their promises."""

from typing import Any

import pytest

from dragoman.model.record import Kind, Record
from dragoman.testing.family_checker import FamilyChecker


def told(*records: Record) -> FamilyChecker:
    checker = FamilyChecker()
    for record in records:
        checker.between_events()
        checker.take(record)
    return checker


def of(kind: Kind, job: str, **fields: Any) -> Record:
    return Record(1, 1.0, kind, job, **fields)


def child(job: str, position: int = 1, **fields: Any) -> Record:
    return of(Kind.SUBMITTED, job, parent="p", position=position, **fields)


PARENT = of(Kind.SUBMITTED, "p", deadline_at=9.0)
OPEN = child("k", deadline_at=9.0)
FAILED = of(Kind.ENDED, "k", state="failed")


def test_a_child_is_new_once() -> None:
    with pytest.raises(AssertionError, match="child 1 of p is repeated"):
        told(PARENT, OPEN, child("other", deadline_at=9.0))


def test_after_a_failure_of_the_parent_failed_children_may_be_new() -> None:
    again = child("k~1", deadline_at=9.0)
    told(PARENT, OPEN, FAILED, of(Kind.REQUEUED, "p", fault="task_failed"), again)
    with pytest.raises(AssertionError, match="repeated"):
        told(PARENT, OPEN, FAILED, of(Kind.REQUEUED, "p", fault="worker_lost"), again)


def test_a_child_may_not_outlive_its_parent() -> None:
    for late in (0.0, 10.0):
        with pytest.raises(AssertionError, match="may outlive its parent"):
            told(PARENT, child("k", deadline_at=late))


@pytest.mark.parametrize(
    "end", [of(Kind.ENDED, "p", state="failed"), of(Kind.CANCEL_ASKED, "p")], ids=str
)
def test_children_are_cancelled_in_the_same_event(end: Record) -> None:
    checker = told(PARENT, OPEN, end)
    with pytest.raises(AssertionError, match="k goes on although its parent"):
        checker.between_events()
    checker.take(of(Kind.CANCEL_ASKED, "k"))
    checker.between_events()
    with pytest.raises(AssertionError, match="is new although its parent"):
        checker.take(child("k2", 2, deadline_at=9.0))
