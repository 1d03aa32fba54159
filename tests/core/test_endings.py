"""How jobs end exactly once, and how lost attempts are retried."""

import pytest
from tests.core.builders import (
    Stage,
    cancelled,
    final,
    finished,
    given,
    handed_back,
    joined,
    kinds,
    left,
    peer,
    submitted,
    undelivered,
)

from dragoman.core.effects import SendCancel, SendReply
from dragoman.core.events import DeliveryFailed, ReplyKind
from dragoman.core.limits import Limits
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind
from dragoman.model.terms import read_terms


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (None, JobState.SUCCEEDED),
        (FaultCode.TASK_FAILED, JobState.FAILED),
        (FaultCode.BAD_REQUEST, JobState.FAILED),
        (FaultCode.CANCELLED, JobState.FAILED),
    ],
)
def test_a_final_word_ends_the_job(stage: Stage, code: FaultCode | None, state: JobState) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    [reply] = final(stage.tell(finished("w1", "j1", code)))
    assert reply.state is state
    assert (reply.fault.code if reply.fault else None) is code


def test_a_second_final_word_is_recorded_and_changes_nothing(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    effects = stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    assert kinds(effects) == ["late"]
    assert stage.job().state is JobState.SUCCEEDED


def test_a_job_for_several_ends_when_the_last_part_has(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"))
    first = stage.tell(finished("w1", "j1"))
    assert kinds(first) == ["gathered"]
    assert [e.kind for e in first if isinstance(e, SendReply)] == [ReplyKind.PART]
    second = stage.tell(finished("w2", "j1"))
    assert kinds(second) == ["gathered", "ended"]
    assert [r.state for r in final(second)] == [JobState.SUCCEEDED]


def test_a_job_for_several_ends_as_its_worst_part_did(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    [reply] = final(stage.tell(finished("w2", "j1")))
    assert reply.state is JobState.FAILED
    assert reply.fault is not None


def test_a_busy_worker_that_leaves_gives_its_job_back(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"))
    effects = stage.tell(left("w1"))
    assert kinds(effects) == ["left", "requeued", "dispatched"]
    assert given(effects) == [("j1", "w2", 2)]


def test_a_job_that_is_lost_too_often_is_dead(stage: Stage) -> None:
    stage.tell(submitted("j1", max_attempts=2))
    stage.tell(joined("w1"), left("w1"), joined("w2"))
    [reply] = final(stage.tell(left("w2")))
    assert reply.state is JobState.DEAD
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.EXHAUSTED
    assert [r.attempt for r in stage.records if r.kind == "dispatched"] == [1, 2]


def test_an_attempt_that_came_back_unrun_does_not_count(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", max_attempts=1), joined("w2"))
    stage.tell(handed_back("w1", "j1"))
    [reply] = final(stage.tell(left("w2")))
    assert reply.state is JobState.DEAD
    assert stage.job().parts[0].attempt == 2


def test_back_off_doubles_with_each_loss_up_to_a_bound(stage: Stage) -> None:
    stage.tell(submitted("j1", max_attempts=9, backoff=1.0))
    waits = []
    for n in range(4):
        stage.tell(joined(f"w{n}"), left(f"w{n}"))
        due = stage.broker.next_deadline()
        assert due is not None
        waits.append(due - stage.now)
        stage.wait(waits[-1])
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_back_off_stays_finite_however_often_a_job_is_lost() -> None:
    stage = Stage(Limits(longest_backoff=0.5))
    stage.tell(submitted("j1", max_attempts=10_000, backoff=0.1))
    for _ in range(1100):
        stage.tell(joined("w1"), left("w1"))
        stage.wait(0.5)
    assert stage.job().state is JobState.QUEUED


def test_who_refused_a_job_is_asked_again_when_the_next_one_is_lost(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"), handed_back("w1", "j1"))
    assert given(stage.tell(left("w2"))) == [("j1", "w1", 3)]


def test_a_job_that_found_no_way_to_its_worker_goes_to_another(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"))
    effects = stage.tell(undelivered("w1", "j1"))
    assert kinds(effects) == ["undelivered", "requeued", "dispatched"]
    assert given(effects) == [("j1", "w2", 2)]


def test_a_job_that_cannot_be_dressed_for_its_worker_fails(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), submitted("j1"))
    fault = Fault(FaultCode.UNMAPPABLE, "no form")
    effects = stage.tell(DeliveryFailed(peer("w1"), False, JobId("j1"), 1, fault))
    assert [r.state for r in final(effects)] == [JobState.FAILED]
    assert stage.worker("w1").credit == 1


def test_a_worker_that_is_away_may_bring_its_result_and_is_given_nothing(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("j1"), submitted("j2"))
    stage.tell(left("w1", grace=10.0))
    effects = stage.tell(finished("w1", "j1"))
    assert [r.state for r in final(effects)] == [JobState.SUCCEEDED]
    assert given(effects) == []
    assert given(stage.tell(joined("w1"))) == [("j2", "w1", 1)]


def test_a_cancelled_job_that_its_worker_hands_back_is_cancelled_for_certain(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"), cancelled("j1"))
    [reply] = final(stage.tell(handed_back("w1", "j1")))
    assert reply.state is JobState.CANCELLED
    assert reply.fault is not None
    assert reply.fault.is_definite


def test_a_cancelled_job_whose_worker_is_lost_is_not_confirmed(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"), cancelled("j1"))
    [reply] = final(stage.tell(left("w1")))
    assert reply.state is JobState.CANCELLED
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.CANCEL_UNCONFIRMED


def test_a_job_that_expires_tells_its_worker_to_stop(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", run_timeout=3.0))
    effects = stage.wait(3.0)
    assert [r.state for r in final(effects)] == [JobState.EXPIRED]
    assert [(e.worker, e.attempt) for e in effects if isinstance(e, SendCancel)] == [
        (peer("w1"), 1)
    ]


def hooks(stage: Stage) -> list[str]:
    """Return the webhooks that the records of ends name."""
    return [read_terms(r.terms).webhook for r in stage.records if r.kind == Kind.ENDED]


def test_every_kind_of_end_names_the_webhook_of_its_job(stage: Stage) -> None:
    hook = "https://hooks.example.org/"
    stage.tell(joined("w1"), joined("w2"), submitted("j1", memoize=True, webhook=hook))
    stage.tell(finished("w1", "j1"), submitted("j2", memoize=True, webhook=hook))
    stage.tell(submitted("j3", target="all", webhook=hook))
    stage.tell(finished("w1", "j3"), finished("w2", "j3"))
    stage.tell(submitted("j4", "nobody's", webhook=hook), cancelled("j4"))
    assert hooks(stage) == [hook] * 4
    stage.tell(submitted("j5"), finished("w1", "j5"))
    assert hooks(stage) == [hook] * 4 + [""]
    assert stage.records[-1].terms == ""
