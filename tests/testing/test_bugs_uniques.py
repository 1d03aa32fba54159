"""Planted bugs of unique keys: for each, the smallest scenario that breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import Stage, finished, joined, kinds, submitted
from tests.testing.promises import around

from dragoman.model.unique import Unique
from dragoman.testing.bugs.uniques import BUGS


def a_job_that_runs_has_its_key(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", unique=Unique("k")))
    return kinds(stage.tell(submitted("j2", unique=Unique("k")))) == ["refused"]


def a_job_that_ended_has_its_key_for_a_time(stage: Stage) -> bool:
    recent = Unique("k", period=60.0)
    stage.tell(joined("w1"), submitted("j1", unique=recent), finished("w1", "j1"))
    return kinds(stage.tell(submitted("j2", unique=recent))) == ["refused"]


def a_replaced_job_ends(stage: Stage) -> bool:
    stage.tell(submitted("j1", unique=Unique("k", quiet=5.0)))
    return "ended" in kinds(stage.tell(submitted("j2", unique=Unique("k", quiet=5.0))))


STORIES: dict[str, Callable[[Stage], bool]] = {
    "unique_job_runs_twice": a_job_that_runs_has_its_key,
    "unique_period_forgotten": a_job_that_ended_has_its_key_for_a_time,
    "replaced_job_still_runs": a_replaced_job_ends,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
