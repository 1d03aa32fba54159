"""Planted bugs of results: for each, the smallest scenario that breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import Stage, finished, joined, peer, submitted
from tests.testing.promises import around

from dragoman.core.effects import SendStatus
from dragoman.core.events import ResultForgotten, ResultRequested
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, ServiceName
from dragoman.model.parent import Parent
from dragoman.testing.bugs.results import BUGS


def is_gone(stage: Stage) -> bool:
    found = stage.tell(ResultRequested(JobId("j1"), peer("c2")))
    [status] = [e for e in found if isinstance(e, SendStatus)]
    return status.fault is not None and status.fault.code is FaultCode.RESULT_GONE


def a_result_expires(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", result_ttl=9.0), finished("w1", "j1"))
    stage.wait(9.0)
    return is_gone(stage)


def a_slow_job_has_a_result(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", result_ttl=9.0))
    stage.wait(9.0)
    stage.tell(finished("w1", "j1"))
    return not is_gone(stage)


def a_forgotten_result_stays_so(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    stage.tell(ResultForgotten(JobId("j1"), ServiceName("a")))
    stage.restart()
    return is_gone(stage)


def a_step_is_there_for_its_parent(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("p"), joined("w2", "b"))
    step = submitted("j1", "b", result_ttl=9.0, parent=Parent(JobId("p"), 1))
    stage.tell(step, finished("w2", "j1"))
    stage.wait(9.0)
    return not is_gone(stage)


STORIES: dict[str, Callable[[Stage], bool]] = {
    "result_served_after_its_ttl": a_result_expires,
    "ttl_counts_from_the_submission": a_slow_job_has_a_result,
    "forgotten_result_returns_after_a_restart": a_forgotten_result_stays_so,
    "result_of_a_step_expires_while_its_parent_runs": a_step_is_there_for_its_parent,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
