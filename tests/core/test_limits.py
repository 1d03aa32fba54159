"""Limits hold, and every refusal is recorded with its reason."""

import pytest
from tests.core.builders import Stage, cancelled, final, finished, joined, kinds, submitted

from dragoman.core.limits import Limits
from dragoman.model.fault import FaultCode


@pytest.mark.parametrize("target", ["any", "all"])
def test_a_full_queue_refuses_with_a_reason_and_a_record(target: str) -> None:
    stage = Stage(Limits(queued_jobs=2))
    stage.tell(submitted("j1", target=target), submitted("j2", target=target))
    effects = stage.tell(submitted("j3", target=target))
    assert kinds(effects) == ["refused"]
    [reply] = final(effects)
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.QUEUE_FULL
    stage.tell(cancelled("j1"))
    assert kinds(stage.tell(submitted("j3", target=target))) == ["submitted"]


def test_bytes_that_wait_are_bounded_too() -> None:
    stage = Stage(Limits(queued_bytes=10))
    stage.tell(submitted("j1", text="x" * 8))
    assert kinds(stage.tell(submitted("j2", text="x" * 8))) == ["refused"]
    assert kinds(stage.tell(submitted("j3", text="x" * 2))) == ["submitted"]


def test_only_the_newest_finished_jobs_are_remembered() -> None:
    stage = Stage(Limits(finished_jobs=2))
    stage.tell(joined("w1"))
    for job in ("j1", "j2", "j3"):
        stage.tell(submitted(job), finished("w1", job))
    assert list(stage.broker.state.store.jobs) == ["j2", "j3"]


def test_finished_jobs_are_forgotten_when_their_time_is_over() -> None:
    stage = Stage(Limits(retention=60))
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    stage.wait(59)
    assert "j1" in stage.broker.state.store.jobs
    stage.wait(2)
    assert "j1" not in stage.broker.state.store.jobs


def test_results_in_memory_are_bounded_and_the_oldest_goes_first() -> None:
    stage = Stage(Limits(result_bytes=30))
    stage.tell(joined("w1"))
    for job in ("j1", "j2", "j3"):
        stage.tell(submitted(job), finished("w1", job))
    bodies = [stage.job(job).parts[0].body is not None for job in ("j1", "j2", "j3")]
    assert bodies == [False, True, True]
    assert stage.job("j1").parts[0].result_seq > 0
