"""What each timer does when it is due."""

from typing import get_args

from tests.core.builders import Stage, final, finished, given, joined, left, submitted

from dragoman.core.deadlines import TimerKind
from dragoman.core.timers import _TABLE
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState


def code(stage: Stage, seconds: float) -> list[FaultCode]:
    return [r.fault.code for r in final(stage.wait(seconds)) if r.fault]


def test_there_is_a_function_for_everything_that_can_be_due() -> None:
    assert set(_TABLE) == set(TimerKind)
    assert get_args(TimerKind) == ()


def test_the_whole_job_has_its_time(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", timeout=5.0))
    assert code(stage, 4.9) == []
    assert code(stage, 0.2) == [FaultCode.JOB_TIMEOUT]


def test_queueing_has_its_own_time_which_ends_with_the_first_dispatch(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), submitted("j1", queue_timeout=5.0))
    stage.tell(submitted("j2", queue_timeout=5.0))
    assert code(stage, 5.1) == [FaultCode.QUEUE_TIMEOUT]
    assert stage.job("j1").state is JobState.RUNNING
    stage.tell(left("w1"))
    assert code(stage, 20.0) == []


def test_patience_ends_no_job_that_waits_for_a_worker_that_is_there(stage: Stage) -> None:
    stage.tell(submitted("j1", patience=5.0), joined("w1", credit=0))
    assert code(stage, 5.1) == []
    assert stage.job("j1").state is JobState.QUEUED


def test_a_job_that_waits_to_be_bound_has_its_queueing_time_too(stage: Stage) -> None:
    stage.tell(submitted("j1", target="all", queue_timeout=5.0))
    assert code(stage, 5.1) == [FaultCode.QUEUE_TIMEOUT]


def test_of_several_parts_only_those_that_wait_expire(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2", credit=0))
    stage.tell(submitted("j1", target="all", queue_timeout=5.0))
    assert code(stage, 5.1) == []
    [reply] = final(stage.tell(finished("w1", "j1")))
    assert reply.state is JobState.EXPIRED


def test_running_has_its_own_time_for_each_attempt(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", run_timeout=5.0))
    stage.wait(4.0)
    stage.tell(joined("w2"), left("w1"))
    assert code(stage, 4.0) == []
    assert code(stage, 1.1) == [FaultCode.RUN_TIMEOUT]


def test_a_retry_after_a_back_off_goes_to_whoever_is_there(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", backoff=2.0), left("w1"), joined("w2"))
    assert given(stage.wait(1.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w2", 2)]


def test_everything_that_is_due_happens_at_once_after_a_long_sleep(stage: Stage) -> None:
    stage.tell(joined("w1", beat_every=1.0), submitted("j1", timeout=5.0), submitted("j2"))
    stage.now += 10_000
    stage.wait(0.0)
    assert stage.job("j1").state is JobState.EXPIRED
    assert stage.job("j2").state is JobState.QUEUED


def test_a_lost_part_that_waits_again_outlives_the_queueing_time_of_the_others(
    stage: Stage,
) -> None:
    stage.tell(joined("w1"), joined("w2", credit=0))
    stage.tell(submitted("j1", target="all", queue_timeout=5.0), left("w1"))
    assert code(stage, 5.1) == []
    states = sorted(str(part.state) for part in stage.job("j1").parts)
    assert states == ["expired", "queued"]
