"""Planted bugs of retries and delays: for each, the smallest scenario that breaks its promise."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.core.builders import Stage, cancelled, finished, given, joined, kinds, submitted
from tests.testing.promises import around

from dragoman.core.events import ScheduleDeclared, ScheduleTicked, ServicePaused, WorkerDrained
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import ServiceName, WorkerName
from dragoman.model.retry import Retry, try_again_text
from dragoman.model.schedule import Schedule
from dragoman.testing.bugs.retries import BUGS

FAILED = FaultCode.TASK_FAILED


def a_cancelled_job_is_not_retried(stage: Stage) -> bool:
    stage.tell(joined("w1", can_cancel=True), submitted("j1", retry=Retry(3)), cancelled("j1"))
    return kinds(stage.tell(finished("w1", "j1", FAILED))) == ["ended"]


def a_task_is_retried_as_often_as_it_may_be(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=0.0)))
    stage.tell(finished("w1", "j1", FAILED))
    return kinds(stage.tell(finished("w1", "j1", FAILED))) == ["ended"]


def a_back_off_outlives_the_broker(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=9.0)))
    stage.tell(finished("w1", "j1", FAILED))
    stage.restart()
    return given(stage.tell(joined("w1"))) == []


def a_delay_outlives_the_broker(stage: Stage) -> bool:
    stage.tell(submitted("j1", delay=9.0))
    stage.restart()
    return given(stage.tell(joined("w1"))) == []


def a_tick_is_recorded_once(stage: Stage) -> bool:
    tick = ScheduleTicked("s", 1005, submitted("j1"))
    stage.tell(ScheduleDeclared("s", Schedule("s", "a", every=5)), tick)
    return kinds(stage.tell(tick)) == []


def a_paused_service_waits(stage: Stage) -> bool:
    stage.tell(joined("w1"), ServicePaused(ServiceName("a"), True))
    return given(stage.tell(submitted("j1"))) == []


def a_drained_worker_stays_drained(stage: Stage) -> bool:
    stage.tell(joined("w1"), WorkerDrained(WorkerName("w1"), True), joined("w1"))
    return given(stage.tell(submitted("j1"))) == []


def fails(stage: Stage, seconds: float = 3.0) -> list[str]:
    fault = Fault(FAILED, try_again_text(seconds, "busy"))
    return kinds(stage.tell(replace(finished("w1", "j1"), fault=fault)))


def a_task_says_when_it_runs_again(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=9.0)))
    fails(stage)
    return given(stage.wait(3.0)) == [("j1", "w1", 2)]


def a_try_counts_as_a_failure(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=0.0)))
    fails(stage, 0.0)
    return fails(stage, 0.0) == ["ended"]


def a_try_that_is_left_is_used(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1)))
    return fails(stage) == ["requeued"]


STORIES: dict[str, Callable[[Stage], bool]] = {
    "retry_after_cancel": a_cancelled_job_is_not_retried,
    "one_retry_too_many": a_task_is_retried_as_often_as_it_may_be,
    "back_off_forgotten_in_a_restart": a_back_off_outlives_the_broker,
    "delay_forgotten_in_a_restart": a_delay_outlives_the_broker,
    "tick_twice": a_tick_is_recorded_once,
    "try_again_waits_as_usual": a_task_says_when_it_runs_again,
    "try_again_does_not_count": a_try_counts_as_a_failure,
    "try_again_ends_the_job": a_try_that_is_left_is_used,
    "paused_service_is_dispatched": a_paused_service_waits,
    "drain_ends_with_the_session": a_drained_worker_stays_drained,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
