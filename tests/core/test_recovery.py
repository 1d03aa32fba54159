"""A new process continues where the last one stopped, at any point."""

import pytest
from tests.core.builders import (
    Stage,
    beat,
    body,
    cancelled,
    final,
    finished,
    forwarded,
    given,
    joined,
    kinds,
    peer,
    submitted,
)

from dragoman.core.effects import SendPoll, SendWork
from dragoman.core.limits import Limits
from dragoman.core.needed_records import NeededRecords
from dragoman.core.recovery import fold
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.target import Labelled


def test_what_waited_waits_again_with_its_body(stage: Stage) -> None:
    stage.tell(submitted("j1", text="remember me"))
    assert kinds(stage.restart()) == ["started"]
    effects = stage.tell(joined("w1"))
    assert given(effects) == [("j1", "w1", 1)]
    (work,) = [e for e in effects if isinstance(e, SendWork)]
    assert stage.bodies[work.body_seq] == body("remember me")


def test_what_ran_waits_for_its_worker_to_come_back(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    stage.restart()
    stage.tell(joined("w2"))
    assert given(stage.wait(14.0)) == []
    effects = stage.tell(joined("w1"))
    assert [(e.job, e.attempt) for e in effects if isinstance(e, SendPoll)] == [("j1", 1)]
    assert [r.state for r in final(stage.tell(finished("w1", "j1")))] == [JobState.SUCCEEDED]


def test_what_ran_goes_to_another_when_its_worker_does_not_come_back(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    stage.restart()
    stage.tell(joined("w2"))
    assert given(stage.wait(15.1)) == [("j1", "w2", 2)]


def test_a_job_without_patience_is_not_refused_before_the_workers_could_come_back(
    stage: Stage,
) -> None:
    stage.tell(joined("w1", credit=1), submitted("j1"), submitted("j2", patience=0.0))
    stage.tell(submitted("j3", target="w1", patience=0.0))
    stage.restart()
    assert final(stage.wait(10.0)) == []
    stage.tell(joined("w1", credit=9))
    assert stage.job("j2").state is JobState.RUNNING
    assert stage.job("j3").state is JobState.RUNNING


def test_its_patience_ends_when_they_do_not(stage: Stage) -> None:
    stage.tell(joined("w1", credit=0), submitted("j1", patience=0.0))
    stage.restart()
    assert [r.state for r in final(stage.wait(15.1))] == [JobState.EXPIRED]


def test_deadlines_go_on_from_the_submission(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", timeout=20.0), submitted("j2", run_timeout=20.0))
    stage.wait(15.0)
    stage.restart()
    stage.tell(joined("w1"))
    codes = {r.fault.code for r in final(stage.wait(5.1)) if r.fault}
    assert codes == {FaultCode.JOB_TIMEOUT, FaultCode.RUN_TIMEOUT}


def test_a_cancel_that_was_not_confirmed_goes_on(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"), cancelled("j1"))
    stage.restart()
    codes = [r.fault.code for r in final(stage.wait(5.1)) if r.fault]
    assert codes == [FaultCode.CANCEL_UNCONFIRMED]


def test_a_hand_over_is_remembered_with_its_target(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), forwarded("w1", "j1", "b", Labelled("zone=eu")))
    stage.restart()
    stage.tell(joined("w2", "b"))
    assert given(stage.tell(joined("w3", "b", labels={"zone": "eu"}))) == [("j1", "w3", 2)]


def test_an_unbound_job_is_bound_after_a_restart(stage: Stage) -> None:
    stage.tell(submitted("j1", target="all"))
    stage.restart()
    assert given(stage.tell(joined("w1"))) == [("j1", "w1", 1)]


def test_the_same_job_is_still_the_same_after_a_restart(stage: Stage) -> None:
    stage.tell(submitted("j1", key="k"))
    stage.restart()
    assert kinds(stage.tell(submitted("j2", key="k"))) == ["adopted"]
    assert kinds(stage.tell(submitted("j1", text="other"))) == ["refused"]


def test_a_memoised_answer_survives_a_restart_and_keeps_its_record_needed(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", memoize=True), finished("w1", "j1"))
    stage.restart()
    [reply] = final(stage.tell(submitted("j2", memoize=True)))
    assert stage.bodies[reply.seq] == body("result of w1")
    store = fold(stage.records)
    store.forget(store.jobs[stage.job("j1").id])
    needed = [r for r in stage.records if r.job == "j1" and NeededRecords(store)(r)]
    assert [record.seq for record in needed] == [reply.seq]


def test_an_id_that_was_used_again_after_its_retention_is_not_forgotten_in_a_replay() -> None:
    stage = Stage(Limits(retention=10.0))
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    stage.wait(11.0)
    stage.tell(submitted("j1", text="another time"))
    stage.wait(11.0)
    stage.tell(beat("w1"))
    stage.restart()
    assert stage.job("j1").state is JobState.RUNNING
    assert fold(stage.records, keep=0).jobs.keys() == {"j1"}


def test_only_so_many_finished_jobs_are_kept_in_a_replay(stage: Stage) -> None:
    stage.tell(joined("w1"))
    for n in range(5):
        stage.tell(submitted(f"j{n}"), finished("w1", f"j{n}"))
    assert list(fold(stage.records, keep=2).jobs) == ["j3", "j4"]


@pytest.mark.parametrize("seed", range(3))
def test_any_beginning_of_the_records_is_a_state_to_go_on_from(seed: int) -> None:
    stage = Stage()
    said = joined("w1", can_cancel=True)
    stage.tell(said, joined("w2"), submitted("j1", target="all", memoize=seed == 1))
    stage.tell(submitted("j2", timeout=50.0), submitted("j3", "later", target="all"))
    stage.tell(cancelled("j3"), finished("w1", "j1"), finished("w2", "j1"))
    stage.tell(forwarded("w1", "j2", "a"), cancelled("j2"))
    records, bodies = list(stage.records), dict(stage.bodies)
    for count in range(len(records) + 1):
        again = Stage()
        again.records, again.bodies = list(records), dict(bodies)
        again.now = stage.now
        again.restart(count)
        again.tell(joined("w9", "a", "later", holds=()))
        again.wait(500.0)
        for job in list(again.broker.state.store.jobs.values()):
            for part in job.open_parts():
                again.tell(finished(part.worker, job.id))
            assert job.is_final, f"{job.id} is open after {count} records"


def test_beats_of_a_worker_from_before_the_restart_are_answered_with_a_dismissal(
    stage: Stage,
) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    stage.restart()
    effects = stage.tell(beat("w1"))
    assert [type(e).__name__ for e in effects] == ["Dismiss"]


def test_a_worker_that_is_slow_to_come_back_is_waited_for_and_others_are_not(stage: Stage) -> None:
    grace = stage.limits.recovery_grace
    stage.tell(joined("slow", rejoins_within=60.0), submitted("j1"))
    stage.tell(joined("w1", "b"), submitted("j2", service="b"))
    stage.restart()
    assert stage.job("j2").state == "running"
    stage.wait(grace + 1.0)
    assert (stage.job("j1").state, stage.job("j2").state) == ("running", "queued")
    stage.wait(60.0 - grace)
    assert stage.job("j1").state == "queued"


def test_how_slow_a_worker_is_outlives_restarts_while_it_holds_something(stage: Stage) -> None:
    stage.tell(joined("slow", rejoins_within=60.0), joined("idle", "b", rejoins_within=60.0))
    stage.tell(submitted("j1"))
    stage.restart()
    stage.restart()
    assert stage.broker.state.store.graces == {peer("slow"): 60.0}
    stage.wait(stage.limits.recovery_grace + 1.0)
    assert stage.job("j1").state == "running"


def test_a_queued_part_of_a_job_that_was_being_cancelled_ends_with_the_restart(
    stage: Stage,
) -> None:
    stage.tell(joined("w1", can_cancel=True), joined("w2", credit=0))
    stage.tell(submitted("j1", target="all"), cancelled("j1"))
    asked = next(n for n, r in enumerate(stage.records, 1) if r.kind == "cancel_asked")
    stage.restart(asked)
    states = {part.bound: part.state for part in stage.job("j1").parts}
    assert states == {"w1": JobState.RUNNING, "w2": JobState.CANCELLED}


def test_no_patience_ends_before_the_slowest_worker_could_come_back() -> None:
    stage = Stage(Limits(recovery_grace=15.0))
    stage.tell(joined("w1", rejoins_within=100.0), joined("w2"))
    stage.tell(submitted("j1", "other", patience=5.0))
    stage.restart()
    stage.wait(99.0)
    assert stage.job("j1").state is JobState.QUEUED
    stage.wait(2.0)
    assert stage.job("j1").state is JobState.EXPIRED


def test_an_absent_worker_keeps_its_jobs_in_the_order_of_their_dispatch(stage: Stage) -> None:
    stage.tell(submitted("later", delay=5.0), submitted("sooner"), joined("w1", credit=5))
    stage.wait(5.0)
    stage.restart()
    (worker,) = stage.broker.state.absent.values()
    assert [part.job.id for part in worker.held.values()] == ["sooner", "later"]
