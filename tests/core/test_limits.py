"""Limits hold, and every refusal is recorded with its reason."""

import pytest
from tests.core.builders import (
    Stage,
    body,
    cancelled,
    final,
    finished,
    joined,
    kinds,
    left,
    submitted,
)

from dragoman.core.effects import SendWork
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


def test_bodies_beyond_the_memory_of_all_services_stay_on_disk() -> None:
    stage = Stage(Limits(queued_memory=1000))
    stage.tell(*(submitted(f"j{n}", f"invented-{n}", text="x" * 200) for n in range(5)))
    in_memory = [stage.job(f"j{n}").parts[0].request is not None for n in range(5)]
    assert in_memory == [True, True, False, False, False]
    effects = [stage.tell(joined(f"w{n}", f"invented-{n}")) for n in (0, 4)]
    first, last = [e for batch in effects for e in batch if isinstance(e, SendWork)]
    assert (first.body.size, first.body_seq) == (200, 0)
    assert stage.bodies[last.body_seq].size == 200
    # The first one has left, so there is room for another.
    stage.tell(submitted("next", "invented-9", text="x" * 200))
    assert stage.job("next").parts[0].request is not None


def test_a_job_that_is_queued_again_is_read_from_disk() -> None:
    stage = Stage()
    stage.tell(joined("w1"), submitted("j1"), joined("w2", credit=0), left("w1"))
    work = [e for e in stage.tell(joined("w3")) if isinstance(e, SendWork)]
    assert [stage.bodies[each.body_seq] for each in work] == [body("question")]
