"""Planted bugs of limits: for each, the smallest scenario that breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import Stage, finished, given, joined, left, submitted
from tests.testing.promises import around

from dragoman.model.limit import Limit
from dragoman.testing.bugs.limits import BUGS

ONE = Limit("k", concurrency=1)
SLOW = Limit("k", rate=1, per=60.0)


def jobs_that_run_over_a_restart_count(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", limit=ONE), submitted("j2", limit=ONE))
    stage.restart()
    return given(stage.tell(joined("w2"))) == []


def a_lost_worker_gives_its_slot_back(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", limit=ONE, max_attempts=1), left("w1"))
    return given(stage.tell(joined("w2"), submitted("j2", limit=ONE))) == [("j2", "w2", 1)]


def one_token_starts_one_job(stage: Stage) -> bool:
    stage.tell(joined("w1"))
    return len(given(stage.tell(submitted("j1", limit=SLOW), submitted("j2", limit=SLOW)))) == 1


def a_limit_with_room_is_used(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", limit=ONE), submitted("j2", limit=ONE))
    stage.tell(submitted("other"), finished("w1", "other"))
    return given(stage.tell(finished("w1", "j1"))) == [("j2", "w1", 1)]


STORIES: dict[str, Callable[[Stage], bool]] = {
    "limit_exceeded_after_a_restart": jobs_that_run_over_a_restart_count,
    "slot_lost_with_its_worker": a_lost_worker_gives_its_slot_back,
    "token_spent_twice": one_token_starts_one_job,
    "limit_of_a_key_not_reopened": a_limit_with_room_is_used,
    "spent_tokens_not_recorded": one_token_starts_one_job,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
