"""Schedules, dead letters, paused services, drained workers: events in, effects out."""

import pytest
from tests.core.builders import (
    Stage,
    final,
    finished,
    given,
    joined,
    kinds,
    left,
    peer,
    submitted,
)

from dragoman.core.events import (
    DeadLetterDropped,
    ResourcesDeclared,
    ScheduleDeclared,
    ScheduleTicked,
    ServicePaused,
    WorkerDrained,
)
from dragoman.core.needed_records import NeededRecords
from dragoman.core.why import Reason, why
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.retry import Retry
from dragoman.model.schedule import Schedule

TICK = Schedule("tick", "a", every=10)


def ticked(at: int, job: str) -> ScheduleTicked:
    return ScheduleTicked("tick", at, submitted(job))


def paused(is_paused: bool = True) -> ServicePaused:
    return ServicePaused(ServiceName("a"), is_paused, "the database moves")


def test_a_tick_makes_one_job_however_often_it_comes(stage: Stage) -> None:
    stage.tell(joined("w1"), ScheduleDeclared("tick", TICK))
    assert kinds(stage.tell(ticked(1010, "t-1010"))) == ["ticked", "submitted", "dispatched"]
    assert kinds(stage.tell(ticked(1010, "t-1010"), ticked(1000, "t-1000"))) == []
    stage.restart()
    assert kinds(stage.tell(ticked(1010, "t-1010"))) == []


def test_a_tick_is_skipped_while_the_last_job_runs(stage: Stage) -> None:
    stage.tell(joined("w1"), ScheduleDeclared("tick", TICK), ticked(1010, "t-1010"))
    assert kinds(stage.tell(ticked(1020, "t-1020"))) == ["ticked"]
    state = stage.broker.state.store.queue.schedules["tick"]
    assert (state.last_tick, state.last_job, state.skipped) == (1020, "t-1010", 1)
    stage.tell(finished("w1", "t-1010"))
    assert given(stage.tell(ticked(1030, "t-1030"))) == [("t-1030", "w1", 1)]


def test_jobs_of_a_schedule_may_overlap(stage: Stage) -> None:
    schedule = Schedule("tick", "a", every=10, overlap="allow")
    stage.tell(joined("w1"), ScheduleDeclared("tick", schedule), ticked(1010, "t-1010"))
    assert given(stage.tell(ticked(1020, "t-1020"))) == [("t-1020", "w1", 1)]


def test_a_removed_schedule_makes_no_jobs(stage: Stage) -> None:
    stage.tell(ScheduleDeclared("tick", TICK))
    assert kinds(stage.tell(ScheduleDeclared("tick"))) == ["unscheduled"]
    assert kinds(stage.tell(ticked(1010, "t"), ScheduleDeclared("tick"))) == []


def test_the_ledger_keeps_the_last_record_of_a_schedule(stage: Stage) -> None:
    stage.tell(ScheduleDeclared("tick", TICK), joined("w1"), ticked(1010, "t"))
    stage.tell(finished("w1", "t"))
    stage.wait(4000.0)
    ticks = [record.seq for record in stage.records if record.kind == "ticked"]
    is_needed = NeededRecords(stage.broker.state.store)
    assert [r.seq for r in stage.records if r.kind == "ticked" and is_needed(r)] == ticks[-1:]


def test_a_job_whose_retries_are_used_up_is_a_dead_letter(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=0.0)), submitted("j2"))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    stage.tell(finished("w1", "j2", FaultCode.TASK_FAILED))
    (letter,) = stage.broker.state.store.queue.dead.values()
    assert (letter.job, letter.fault, letter.attempts) == ("j1", "task_failed", 2)


def test_a_dead_job_stays_a_dead_letter_after_its_retention_and_a_restart(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", max_attempts=1), left("w1"))
    stage.wait(4000.0)
    stage.restart()
    assert not stage.broker.state.store.jobs
    assert list(stage.broker.state.store.queue.dead) == ["j1"]


@pytest.mark.parametrize("is_retried", [True, False])
def test_a_dead_letter_is_dropped_or_retried_once(stage: Stage, is_retried: bool) -> None:
    stage.tell(joined("w1"), submitted("j1", max_attempts=1), left("w1"), joined("w1"))
    again = submitted("j2") if is_retried else None
    effects = stage.tell(DeadLetterDropped(JobId("j1"), again))
    assert given(effects) == ([("j2", "w1", 1)] if is_retried else [])
    assert not stage.broker.state.store.queue.dead
    assert kinds(stage.tell(DeadLetterDropped(JobId("j1"), submitted("j3")))) == []


@pytest.mark.parametrize("target", ["any", "all", "w1"])
def test_a_paused_service_dispatches_nothing_until_it_is_resumed(stage: Stage, target: str) -> None:
    stage.tell(joined("w1", "a", "b"), paused())
    assert given(stage.tell(submitted("j1", target=target))) == []
    assert stage.why() is Reason.PAUSED
    assert given(stage.tell(submitted("j2", "b"))) == [("j2", "w1", 1)]
    stage.restart()
    assert given(stage.tell(joined("w1", "a", "b", holds=["j2"]))) == []
    assert given(stage.tell(paused(False))) == [("j1", "w1", 1)]
    assert kinds(stage.tell(paused(False))) == []


def test_running_jobs_of_a_paused_service_go_on(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), paused())
    (reply,) = final(stage.tell(finished("w1", "j1")))
    assert reply.fault is None


def drained(is_drained: bool = True, name: str = "w1") -> WorkerDrained:
    return WorkerDrained(WorkerName(name), is_drained, "new disk")


@pytest.mark.parametrize("target", ["any", "all", "w1"])
def test_a_drained_worker_gets_nothing_until_it_is_undrained(stage: Stage, target: str) -> None:
    stage.tell(joined("w1"), drained())
    assert given(stage.tell(submitted("j1", target=target))) == []
    assert stage.why() is Reason.DRAINED
    stage.tell(left("w1"), joined("w1"))
    assert given(stage.tell(joined("w1"))) == []
    stage.restart()
    assert given(stage.tell(joined("w1"))) == []
    effects = stage.tell(drained(False))
    assert given(effects) == [("j1", "w1", 1)]
    assert kinds(effects)[0] == "undrained"
    assert kinds(stage.tell(drained(False))) == []


def test_a_drained_worker_finishes_what_it_holds_and_stays(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), drained())
    assert stage.why() is Reason.RUNNING
    (reply,) = final(stage.tell(finished("w1", "j1"), submitted("j2")))
    assert reply.fault is None
    assert peer("w1") in stage.broker.state.registry.workers
    assert given(stage.tell(joined("w2"))) == [("j2", "w2", 1)]


def test_a_worker_is_drained_before_it_registers_and_by_its_name_only(stage: Stage) -> None:
    stage.tell(drained(), joined("w1"), joined("w2"))
    assert given(stage.tell(submitted("j1"))) == [("j1", "w2", 1)]


def test_a_job_for_all_workers_skips_drained_ones(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), drained())
    assert given(stage.tell(submitted("j1", target="all"))) == [("j1", "w2", 1)]


def test_why_names_the_drained_workers_and_what_to_do(stage: Stage) -> None:
    stage.tell(joined("w1"), drained(), submitted("j1"))
    found = why(stage.broker.state, JobId("j1"))
    assert "w1 is drained: new disk; `dragoman undrain w1`" in found.words
    assert [each.standing for each in found.candidates] == ["drained"]
    stage.tell(joined("w2"), drained(name="w2"), submitted("j2"))
    assert "all 2 workers" in why(stage.broker.state, JobId("j2")).words


def test_resources_of_a_drained_worker_move_and_return(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), ResourcesDeclared(ServiceName("a"), ("r1", "r2"), 1))
    stage.wait(9.0)
    owners = stage.broker.state.registry.owners
    before = {name: list(each) for name, each in owners.items()}
    assert [peer("w1")] in before.values()
    stage.tell(drained())
    stage.wait(9.0)
    assert {one for each in owners.values() for one in each} == {peer("w2")}
    sent = given(stage.tell(submitted("j1", target="resource:r1,r2")))
    assert sent == [("j1", "w2", 1)]
    stage.tell(drained(False))
    stage.wait(9.0)
    assert {name: list(each) for name, each in owners.items()} == before
