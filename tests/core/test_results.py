"""Results that expire or are forgotten: who gets them, how long, and what is said afterwards."""

from typing import Any

import pytest
from tests.core.builders import Stage, final, finished, given, joined, left, peer, submitted

from dragoman.core.effects import Effect, SendStatus
from dragoman.core.events import ResultForgotten, ResultRequested
from dragoman.core.snapshots import read_snapshot, write_snapshot
from dragoman.core.why import why
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, Principal, ServiceName
from dragoman.model.parent import Parent
from dragoman.model.record import Kind

FORGET = ResultForgotten(JobId("j1"), ServiceName("a"), Principal("ada"))
EXPIRED = (
    "the result of job j1 expired at 1970-01-01T00:16:50Z, 10 s after the job ended; "
    "submit the job again under a new id"
)


def asked(stage: Stage, job: str = "j1") -> SendStatus:
    """Ask for the result of a job."""
    found = stage.tell(ResultRequested(JobId(job), peer("c2")))
    [status] = [e for e in found if isinstance(e, SendStatus)]
    return status


def has_result(status: SendStatus) -> bool:
    assert status.status is not None
    return any(part.seq or part.body for part in status.status.parts)


def code_of(fault: Fault | None) -> FaultCode | None:
    return fault.code if fault is not None else None


def ended(stage: Stage, ttl: float | None = 10.0, **terms: Any) -> list[Effect]:
    return stage.tell(joined("w1"), submitted("j1", result_ttl=ttl, **terms), finished("w1", "j1"))


def test_a_result_is_given_out_until_its_time_is_over(stage: Stage) -> None:
    [reply] = final(ended(stage))
    assert reply.body.parts == (b"result of w1",), "the one who waits gets it at once"
    stage.wait(9.9)
    assert has_result(asked(stage))
    stage.wait(0.1)
    status = asked(stage)
    assert not has_result(status)
    assert status.fault == Fault(FaultCode.RESULT_GONE, EXPIRED)
    assert status.status is not None
    assert status.status.state is JobState.SUCCEEDED, "it is still known how the job ended"
    assert status.status.parts[0].fault == status.fault


def test_an_expired_result_leaves_the_memory(stage: Stage) -> None:
    ended(stage)
    assert stage.broker.state.cached_bytes > 0
    stage.wait(10.0)
    assert stage.broker.state.cached_bytes == 0
    assert stage.broker.state.store.jobs[JobId("j1")].parts[0].body is None
    assert len(stage.broker.state.deadlines) == 0


def test_a_job_that_leaves_the_memory_takes_its_timer_with_it(stage: Stage) -> None:
    ended(stage, ttl=1e6)
    assert len(stage.broker.state.deadlines) == 1
    stage.wait(stage.limits.retention + 1)
    assert len(stage.broker.state.deadlines) == 0


def test_the_same_job_again_is_not_run_again(stage: Stage) -> None:
    ended(stage)
    stage.wait(10.0)
    effects = stage.tell(submitted("j1", result_ttl=10.0))
    assert given(effects) == []
    [reply] = final(effects)
    assert code_of(reply.fault) is FaultCode.RESULT_GONE
    assert reply.state is JobState.SUCCEEDED


def test_an_expired_result_stays_expired_after_a_restart(stage: Stage) -> None:
    ended(stage)
    stage.restart()
    assert has_result(asked(stage))
    stage.wait(10.0)
    stage.restart()
    assert code_of(asked(stage).fault) is FaultCode.RESULT_GONE


def test_a_failure_keeps_its_fault_but_not_its_body(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", result_ttl=10.0))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    stage.wait(10.0)
    status = asked(stage)
    assert code_of(status.fault) is FaultCode.TASK_FAILED
    assert not has_result(status)


def test_a_memoised_answer_is_not_taken_from_an_expired_result(stage: Stage) -> None:
    ended(stage, memoize=True)
    stage.wait(10.0)
    assert given(stage.tell(submitted("j3", memoize=True))) == [("j3", "w1", 1)]


def test_several_results_expire_together(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all", result_ttl=10.0))
    stage.tell(finished("w1", "j1"), finished("w2", "j1"))
    stage.wait(10.0)
    status = asked(stage).status
    assert status is not None
    assert [code_of(part.fault) for part in status.parts] == [FaultCode.RESULT_GONE] * 2
    [reply] = final(stage.tell(submitted("j1", target="all", result_ttl=10.0)))
    assert code_of(reply.fault) is FaultCode.RESULT_GONE


def test_a_forgotten_result_is_gone_at_once_and_on_record(stage: Stage) -> None:
    ended(stage, ttl=None)
    stage.tell(FORGET)
    record = stage.records[-1]
    assert (record.kind, record.job, record.principal) == (Kind.RESULT_FORGOTTEN, "j1", "ada")
    assert stage.broker.state.cached_bytes == 0
    status = asked(stage)
    assert code_of(status.fault) is FaultCode.RESULT_GONE
    assert "was forgotten on request at 1970-01-01T00:16:40Z" in str(status.fault)
    assert "was forgotten on request" in why(stage.broker.state, JobId("j1")).words
    stage.tell(FORGET)
    assert stage.records[-1] == record, "once is enough"


def test_a_forgotten_result_stays_forgotten_after_a_restart(stage: Stage) -> None:
    ended(stage, ttl=None)
    stage.tell(FORGET)
    stage.restart()
    assert code_of(asked(stage).fault) is FaultCode.RESULT_GONE
    restored = read_snapshot(write_snapshot(stage.broker.state.store))
    assert restored.as_recorded() == stage.broker.state.store.as_recorded()
    assert restored.jobs[JobId("j1")].forgotten_at == 1000.0


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_job_that_left_the_memory_is_forgotten_on_record_only(
    stage: Stage, is_archived: bool
) -> None:
    event = ResultForgotten(JobId("j0"), ServiceName("a"), is_archived=is_archived)
    stage.tell(event)
    assert [record.kind for record in stage.records] == [Kind.RESULT_FORGOTTEN] * is_archived
    stage.restart()


def test_an_open_job_has_nothing_to_forget(stage: Stage) -> None:
    stage.tell(submitted("j1"), FORGET)
    assert Kind.RESULT_FORGOTTEN not in [record.kind for record in stage.records]


def test_the_result_of_a_step_lasts_while_its_parent_is_open(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("p"), joined("w2", "b"))
    step = submitted("j1", "b", client="w1", result_ttl=10.0, parent=Parent(JobId("p"), 1))
    stage.tell(step, finished("w2", "j1"), FORGET)
    stage.wait(20.0)
    stage.tell(left("w1"), joined("w1"))
    [reply] = final(stage.tell(step))
    assert reply.fault is None
    assert reply.seq or reply.body.parts
    stage.tell(finished("w1", "p"))
    assert code_of(asked(stage).fault) is FaultCode.RESULT_GONE
