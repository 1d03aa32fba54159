"""Child jobs: accepted, recognised, refused; deadlines and cancels pass down."""

from dataclasses import replace
from typing import Any

from tests.core.builders import (
    Stage,
    cancelled,
    final,
    finished,
    given,
    joined,
    kinds,
    left,
    peer,
    submitted,
)

from dragoman.core.effects import SendCancel, SendReply
from dragoman.core.events import JobSubmitted
from dragoman.core.limits import Limits
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import Principal
from dragoman.model.parent import Parent
from dragoman.model.retry import Retry


def child(job: str, position: int = 1, parent: str = "j1", **more: Any) -> JobSubmitted:
    service, client = more.pop("service", "b"), more.pop("client", "w1")
    return submitted(job, service, client=client, parent=Parent(parent, position), **more)


def running(stage: Stage, **terms: Any) -> None:
    """A parent runs on w1; w2 serves its children."""
    stage.tell(joined("w1", credit=9, can_cancel=True), joined("w2", "b", credit=9))
    stage.tell(submitted("j1", **terms))


def fault_of(effects: list[Any]) -> FaultCode | None:
    (reply,) = [e for e in effects if isinstance(e, SendReply) and e.kind == "final"]
    return reply.fault.code if reply.fault else None


def test_a_child_is_a_job_with_its_parent_on_record(stage: Stage) -> None:
    running(stage)
    assert given(stage.tell(child("k1", 3))) == [("k1", "w2", 1)]
    record = next(r for r in stage.records if r.job == "k1")
    assert (record.kind, record.parent, record.position, record.terms) == ("submitted", "j1", 3, "")


def test_a_parent_that_runs_again_gets_the_recorded_result_of_a_finished_child(
    stage: Stage,
) -> None:
    running(stage)
    stage.tell(child("k1"), finished("w2", "k1"), joined("w3"), left("w1"))
    effects = stage.tell(child("k1", client="w3"))
    assert kinds(effects) == ["adopted"]
    (reply,) = final(effects)
    assert (reply.state, reply.client) == (JobState.SUCCEEDED, peer("w3"))


def test_the_child_at_a_position_is_found_under_any_id(stage: Stage) -> None:
    running(stage)
    stage.tell(child("k1"), finished("w2", "k1"))
    (reply,) = final(stage.tell(child("another id")))
    assert (reply.job, reply.state) == ("another id", JobState.SUCCEEDED)


def test_another_request_at_the_same_position_is_not_deterministic(stage: Stage) -> None:
    running(stage)
    stage.tell(child("k1"), finished("w2", "k1"))
    for other in (child("k1", text="other"), child("k2", service="c"), child("k2", text="other")):
        effects = stage.tell(other)
        assert fault_of(effects) is FaultCode.NOT_DETERMINISTIC
        assert "not deterministic" in stage.records[-1].detail


def test_an_id_of_another_child_is_a_conflict(stage: Stage) -> None:
    running(stage)
    stage.tell(child("k1", 1))
    assert fault_of(stage.tell(child("k1", 2))) is FaultCode.CONFLICT


def test_children_of_unknown_queued_and_ended_parents_are_refused(stage: Stage) -> None:
    stage.tell(joined("w2", "b"), submitted("j1"))
    assert fault_of(stage.tell(child("k1", parent="nothing"))) is FaultCode.UNKNOWN_JOB
    assert fault_of(stage.tell(child("k1"))) is FaultCode.CANCELLED
    stage.tell(joined("w1"), finished("w1", "j1"))
    assert fault_of(stage.tell(child("k1"))) is FaultCode.CANCELLED


def test_only_the_worker_of_a_job_adds_children_to_it(stage: Stage) -> None:
    stage.tell(joined("w1", principal=Principal("ada")), joined("w2", "b"), submitted("j1"))
    assert fault_of(stage.tell(child("k1"))) is FaultCode.DENIED
    stage.tell(left("w1", grace=5.0))
    assert fault_of(stage.tell(child("k1"))) is FaultCode.UNAVAILABLE


def test_jobs_nest_only_so_deep() -> None:
    stage = Stage(Limits(nesting=3))
    stage.tell(joined("w1", credit=9), submitted("j1"), child("j2", service="a"))
    stage.tell(child("j3", parent="j2", service="a"))
    refused = stage.tell(child("j4", parent="j3", service="a"))
    assert fault_of(refused) is FaultCode.TOO_MANY_HOPS


def test_a_child_expires_with_its_parent(stage: Stage) -> None:
    running(stage, timeout=10.0)
    stage.wait(4.0)
    stage.tell(child("k1"), child("k2", 2, timeout=3.0), child("k3", 3, timeout=60.0))
    assert [stage.job(k).deadline_at for k in ("k1", "k2", "k3")] == [1010.0, 1007.0, 1010.0]
    stage.wait(6.0)
    assert {stage.job(k).state for k in ("j1", "k1", "k2", "k3")} == {JobState.EXPIRED}
    assert "parent" in stage.job("k1").fault.message


def test_a_cancel_passes_down_to_children_of_children(stage: Stage) -> None:
    stage.tell(joined("w1", credit=9, can_cancel=True), submitted("j1"))
    stage.tell(child("k1", service="a"), child("g1", parent="k1", service="a"))
    stage.tell(child("k2", 2, service="nobody"))
    effects = stage.tell(cancelled("j1"))
    assert {e.job for e in effects if isinstance(e, SendCancel)} == {"j1", "k1", "g1"}
    assert stage.job("k2").state is JobState.CANCELLED
    details = [r.detail for r in stage.records if r.kind == "cancel_asked"]
    assert "because its parent j1 is being cancelled" in details
    assert fault_of(stage.tell(child("k3", 3))) is FaultCode.CANCELLED


def test_children_of_a_parent_that_failed_are_cancelled(stage: Stage) -> None:
    running(stage)
    stage.tell(child("k1", service="nobody"), finished("w1", "j1", FaultCode.TASK_FAILED))
    assert stage.job("k1").state is JobState.CANCELLED


def test_children_of_a_parent_that_succeeded_go_on(stage: Stage) -> None:
    running(stage)
    stage.tell(child("k1"), finished("w1", "j1"))
    assert stage.job("k1").state is JobState.RUNNING
    stage.tell(finished("w2", "k1"))
    assert [job.id for job in stage.broker.state.store.finished] == ["j1", "k1"]


def test_the_results_of_children_are_kept_until_the_parent_ends() -> None:
    stage = Stage(Limits(retention=5.0, finished_jobs=1))
    running(stage)
    stage.tell(*(child(f"k{n}", n) for n in (1, 2, 3)))
    stage.tell(*(finished("w2", f"k{n}") for n in (1, 2, 3)))
    stage.wait(60.0)
    assert {"k1", "k2", "k3"} <= set(stage.broker.state.store.jobs)
    stage.tell(finished("w1", "j1"))
    stage.wait(6.0)
    assert not stage.broker.state.store.jobs
    assert not list(stage.broker.state.store.families.of(stage.records[0].job))  # type: ignore[arg-type]


def test_a_retry_of_the_parent_repeats_failed_children_and_no_others(stage: Stage) -> None:
    running(stage, retry=Retry(1, backoff=0.0))
    stage.tell(child("k1", 1), child("k2", 2))
    stage.tell(finished("w2", "k1"), finished("w2", "k2", FaultCode.TASK_FAILED))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    assert final(stage.tell(child("k1", 1)))[0].state is JobState.SUCCEEDED
    assert fault_of(stage.tell(child("k2", 2))) is FaultCode.CONFLICT
    assert given(stage.tell(child("k2 again", 2))) == [("k2 again", "w2", 1)]
    stage.tell(finished("w2", "k2 again"))
    assert final(stage.tell(child("k2 again", 2)))[0].state is JobState.SUCCEEDED
    stage.tell(finished("w1", "j1"))


def test_a_lost_worker_repeats_no_failed_child(stage: Stage) -> None:
    running(stage)
    stage.tell(child("k1"), finished("w2", "k1", FaultCode.TASK_FAILED), joined("w3"), left("w1"))
    (reply,) = final(stage.tell(child("k1", client="w3")))
    assert reply.state is JobState.FAILED


def test_parents_and_children_survive_a_restart(stage: Stage) -> None:
    running(stage)
    stage.tell(child("k1", 1), child("k2", 2), finished("w2", "k1"))
    stage.restart()
    assert final(stage.tell(child("k1", 1)))[0].state is JobState.SUCCEEDED
    stage.tell(joined("w1", can_cancel=True), joined("w2", "b"), cancelled("j1"))
    assert stage.job("k2").cancel_asked_at


def test_a_parent_that_waits_lends_its_slot(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("j1"), submitted("j2"))
    assert given(stage.tell(child("k1", service="a"))) == [("j2", "w1", 1)]
    assert given(stage.tell(finished("w1", "j2"))) == [("k1", "w1", 1)]
    stage.tell(submitted("j3"))
    assert given(stage.tell(finished("w1", "k1"))) == []
    assert given(stage.tell(finished("w1", "j1"))) == [("j3", "w1", 1)]


def test_slots_are_lent_again_after_a_restart(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("j1"))
    stage.tell(child("k1", service="a"))
    stage.restart()
    stage.tell(submitted("j2"))
    assert given(stage.tell(joined("w1", credit=1, credit_returns=True))) == []
    assert given(stage.tell(finished("w1", "k1"), finished("w1", "j1"))) == [("j2", "w1", 1)]


def test_a_worker_lends_only_so_many_slots(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("j1"))
    for n in range(1, 12):
        parent = "j1" if n == 1 else f"k{n - 1}"
        stage.tell(child(f"k{n}", parent=parent, service="a"))
    running = [j for j in stage.broker.state.store.jobs.values() if j.state is JobState.RUNNING]
    assert len(running) == 9


def test_after_a_restart_the_broker_still_knows_whose_worker_runs_the_parent(
    stage: Stage,
) -> None:
    stage.tell(joined("w1", principal=Principal("ada")), submitted("j1"))
    stage.restart()
    ada = replace(child("k1"), principal=Principal("ada"))
    assert "submitted" in kinds(stage.tell(ada))
    assert fault_of(stage.tell(child("k2", 2))) is FaultCode.UNAVAILABLE
