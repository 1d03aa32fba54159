"""Planted bugs of jobs: for each, the smallest scenario in which it breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import (
    Stage,
    cancelled,
    final,
    finished,
    forwarded,
    given,
    handed_back,
    joined,
    left,
    peer,
    submitted,
)
from tests.testing.promises import around

from dragoman.model.job import JobState
from dragoman.testing.bugs.jobs import BUGS


def a_cancelled_job_is_not_tried_again(stage: Stage) -> bool:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"), joined("w2"), cancelled("j1"))
    return given(stage.tell(handed_back("w1", "j1"))) == []


def the_result_of_an_old_attempt_is_not_that_of_the_new_one(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1"), left("w1"), joined("w1"))
    return final(stage.tell(finished("w1", "j1", attempt=1))) == []


def a_job_for_several_ends_with_the_last(stage: Stage) -> bool:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"))
    return final(stage.tell(finished("w1", "j1"))) == []


def what_has_ended_is_not_run_again(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    return given(stage.tell(submitted("j1"))) == []


def a_job_that_is_passed_on_answers_its_client(stage: Stage) -> bool:
    stage.tell(joined("w1", "a"), joined("w2", "b"), submitted("j1", "a"))
    stage.tell(forwarded("w1", "j1", "b"))
    return [reply.client for reply in final(stage.tell(finished("w2", "j1")))] == [peer("c1")]


def a_memoised_answer_is_for_the_same_question(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", text="one", memoize=True), finished("w1", "j1"))
    return len(given(stage.tell(submitted("j2", text="two", memoize=True)))) == 1


def a_job_is_tried_as_often_as_it_may_be(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", max_attempts=1), left("w1"))
    return stage.job("j1").state is JobState.DEAD


def who_left_is_told_nothing(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1"), left("c1"))
    return final(stage.tell(finished("w1", "j1"))) == []


STORIES: dict[str, Callable[[Stage], bool]] = {
    "forgotten_cancel": a_cancelled_job_is_not_tried_again,
    "stale_result_applied": the_result_of_an_old_attempt_is_not_that_of_the_new_one,
    "gather_ends_early": a_job_for_several_ends_with_the_last,
    "duplicate_run_on_resubmission": what_has_ended_is_not_run_again,
    "hand_over_loses_the_client": a_job_that_is_passed_on_answers_its_client,
    "memo_answers_the_wrong_body": a_memoised_answer_is_for_the_same_question,
    "dead_too_late": a_job_is_tried_as_often_as_it_may_be,
    "reply_to_a_client_that_left": who_left_is_told_nothing,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
