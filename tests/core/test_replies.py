"""Replies of workers about their jobs; only the current attempt counts."""

import pytest
from tests.core.builders import (
    Stage,
    body,
    cancelled,
    final,
    finished,
    forwarded,
    given,
    handed_back,
    joined,
    kinds,
    left,
    peer,
    replied,
    sends,
    submitted,
)

from dragoman.core.effects import SendReply
from dragoman.core.events import JobForwarded, ReplyKind
from dragoman.core.limits import Limits
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.target import ALL, Labelled, Named, OnResource


def test_a_second_confirmation_of_one_attempt_says_nothing_new(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    stage.tell(replied("w1", "j1", ReplyKind.ACCEPTED))
    assert stage.tell(replied("w1", "j1", ReplyKind.ACCEPTED)) == []


@pytest.mark.parametrize(
    ("kind", "records"),
    [
        (ReplyKind.ACCEPTED, ["accepted"]),
        (ReplyKind.PROGRESS, ["progress"]),
        (ReplyKind.INPUT_ASKED, ["input_asked"]),
        (ReplyKind.CHUNK, []),
    ],
)
def test_what_comes_before_the_result_is_passed_on(
    stage: Stage, kind: ReplyKind, records: list[str]
) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    effects = stage.tell(replied("w1", "j1", kind))
    assert kinds(effects) == records
    [reply] = [e for e in effects if isinstance(e, SendReply)]
    assert (reply.kind, reply.worker, reply.body) == (kind, "w1", body(str(kind)))


def test_a_large_report_is_passed_on_and_recorded_without_its_body() -> None:
    stage = Stage(Limits(progress_bytes=3))
    stage.tell(joined("w1"), submitted("j1"))
    effects = stage.tell(replied("w1", "j1", ReplyKind.PROGRESS))
    assert [e.body.size for e in effects if isinstance(e, SendReply)] == [8]
    assert stage.records[-1].nbytes == 0


def test_a_result_of_an_old_attempt_is_recorded_and_not_applied(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w1", holds=()))
    assert stage.job().parts[0].attempt == 2
    effects = stage.tell(finished("w1", "j1", attempt=1))
    assert kinds(effects) == ["late"]
    assert stage.job().state is JobState.RUNNING
    assert stage.bodies[stage.records[-1].seq] == body("result of w1")
    assert final(stage.tell(finished("w1", "j1", attempt=2)))


def test_a_result_from_a_worker_that_lost_the_job_is_late(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"), left("w1"), joined("w1"))
    assert kinds(stage.tell(finished("w1", "j1"))) == ["late"]
    assert stage.job().parts[0].worker == "w2"


@pytest.mark.parametrize("kind", list(ReplyKind))
def test_a_word_about_an_unknown_job_is_late_whatever_it_is(stage: Stage, kind: ReplyKind) -> None:
    stage.tell(joined("w1"))
    assert kinds(stage.tell(replied("w1", "never", kind))) == ["late"]


# --- forwarding ---------------------------------------------------------------------------------


def test_a_job_that_is_passed_on_keeps_its_client_and_its_id(stage: Stage) -> None:
    stage.tell(joined("w1", "a"), joined("w2", "b"), submitted("j1"))
    effects = stage.tell(forwarded("w1", "j1", "b"))
    assert kinds(effects) == ["forwarded", "dispatched"]
    assert given(effects) == [("j1", "w2", 2)]
    [reply] = final(stage.tell(finished("w2", "j1")))
    assert (reply.client, reply.state) == (peer("c1"), JobState.SUCCEEDED)


def test_each_hop_has_all_its_attempts_before_it(stage: Stage) -> None:
    stage.tell(joined("w1", "a"), submitted("j1", max_attempts=1), forwarded("w1", "j1", "b"))
    stage.tell(joined("w2", "b"))
    assert [r.state for r in final(stage.tell(left("w2")))] == [JobState.DEAD]


def test_a_job_cannot_be_passed_on_for_ever() -> None:
    stage = Stage(Limits(hops=2))
    stage.tell(joined("w1", "a"), submitted("j1"))
    stage.tell(forwarded("w1", "j1", "a"), forwarded("w1", "j1", "a"))
    [reply] = final(stage.tell(forwarded("w1", "j1", "a")))
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.TOO_MANY_HOPS


def test_a_hand_over_goes_to_whom_its_own_target_means(stage: Stage) -> None:
    stage.tell(joined("w1", labels={"x": "1"}), submitted("j1", target="labels:x"))
    stage.tell(joined("w2", "b"), joined("w3", "b", labels={"zone": "eu"}))
    stage.tell(joined("w4", "b", resources=("r1",)))
    assert given(stage.tell(forwarded("w1", "j1", "b"))) == [("j1", "w2", 2)]
    assert given(stage.tell(forwarded("w2", "j1", "b", Labelled("zone")))) == [("j1", "w3", 3)]
    named = Named((WorkerName("nobody"), WorkerName("w2")))
    assert given(stage.tell(forwarded("w3", "j1", "b", named))) == [("j1", "w2", 4)]
    assert given(stage.tell(forwarded("w2", "j1", "b", OnResource(("r1",))))) == [("j1", "w4", 5)]
    assert len(given(stage.tell(forwarded("w4", "j1", "b", ALL)))) == 1


@pytest.mark.parametrize(
    ("service", "target"), [("all", ALL), ("b", Named((WorkerName("nobody"),)))]
)
def test_a_hand_over_to_nobody_in_particular_fails(
    stage: Stage, service: str, target: Named
) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    [reply] = final(stage.tell(forwarded("w1", "j1", service, target)))
    assert reply.state is JobState.FAILED


def test_a_cancelled_job_is_not_passed_on(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), joined("w2", "b"), submitted("j1"), cancelled("j1"))
    effects = stage.tell(forwarded("w1", "j1", "b"))
    assert given(effects) == []
    assert [r.state for r in final(effects)] == [JobState.CANCELLED]


def test_a_hand_over_of_an_old_attempt_is_late(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w1", holds=()))
    old = JobForwarded(peer("w1"), JobId("j1"), ServiceName("b"), body(), attempt=1)
    assert kinds(stage.tell(old)) == ["late"]
    assert stage.job().state is JobState.RUNNING


def test_who_refused_a_job_may_have_it_for_another_service(stage: Stage) -> None:
    stage.tell(joined("w1", "a", "b"), submitted("j1"), joined("w2"), handed_back("w1", "j1"))
    assert given(stage.tell(forwarded("w2", "j1", "b"))) == [("j1", "w1", 3)]


def test_a_hand_over_of_what_a_worker_does_not_hold_is_late(stage: Stage) -> None:
    stage.tell(joined("w1"))
    effects = stage.tell(forwarded("w1", "never", "b"))
    assert (kinds(effects), sends(effects)) == (["late"], [])
