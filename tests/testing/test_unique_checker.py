"""The checker of unique keys finds two jobs with one key."""

import pytest

from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms
from dragoman.model.unique import Unique
from dragoman.testing.unique_checker import UniqueChecker


def record(job: str, at: float = 1.0) -> Record:
    return Record(1, at, Kind.SUBMITTED, job)


@pytest.mark.parametrize(
    ("unique", "complaint"),
    [
        (Unique("k"), "which is not over"),
        (Unique("k", until="start"), "which is not over"),
        (Unique("k", quiet=1.0), "which still waits"),
    ],
)
def test_two_waiting_jobs_of_a_key_are_found(unique: Unique, complaint: str) -> None:
    checker = UniqueChecker()
    checker.submitted(record("j1"), Terms(unique=unique))
    with pytest.raises(AssertionError, match=complaint):
        checker.submitted(record("j2"), Terms(unique=unique))


def test_a_job_that_is_too_early_is_found() -> None:
    checker, recent = UniqueChecker(), Terms(unique=Unique("k", period=60.0))
    checker.submitted(record("j1"), recent)
    checker.ended(record("j1"))
    with pytest.raises(AssertionError, match="which is recent"):
        checker.submitted(record("j2", 30.0), recent)


def test_a_key_may_be_used_again() -> None:
    checker, queued = UniqueChecker(), Terms(unique=Unique("k", until="start"))
    checker.submitted(record("j1"), queued)
    checker.started(record("j1"))
    checker.submitted(record("j2"), queued)
