"""Planted bugs of timers: for each, the smallest scenario in which it breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import Stage, beat, final, given, joined, kinds, left, submitted
from tests.testing.promises import around

from dragoman.testing.bugs.timing import BUGS


def beats_keep_a_lease(stage: Stage) -> bool:
    stage.tell(joined("w1", beat_every=1.0, missed_allowed=2))
    for _ in range(10):
        stage.wait(1.0)
        stage.tell(beat("w1"))
    return "left" not in {str(record.kind) for record in stage.records}


def patience_ends(stage: Stage) -> bool:
    stage.tell(submitted("j1", patience=5.0))
    return len(final(stage.wait(6.0))) == 1


def an_attempt_that_runs_too_long_is_ended(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", run_timeout=5.0))
    return len(final(stage.wait(6.0))) == 1


def a_job_is_offered_again_after_its_back_off(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", backoff=1.0), left("w1"), joined("w2"))
    return given(stage.wait(2.0)) == [("j1", "w2", 2)]


def an_absence_lasts_as_long_as_it_was_said_to(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1"), left("w1", grace=10.0))
    stage.wait(5.0)
    stage.tell(joined("w1", holds=["j1"]), left("w1", grace=10.0))
    return kinds(stage.wait(9.0)) == []


STORIES: dict[str, Callable[[Stage], bool]] = {
    "lease_ignoring_beats": beats_keep_a_lease,
    "patience_ignored": patience_ends,
    "run_timeout_not_enforced": an_attempt_that_runs_too_long_is_ended,
    "back_off_loses_the_part": a_job_is_offered_again_after_its_back_off,
    "early_absence": an_absence_lasts_as_long_as_it_was_said_to,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
