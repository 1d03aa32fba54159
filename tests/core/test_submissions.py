"""Requests of clients: submit, submit again, cancel, input, status."""

from dataclasses import replace
from typing import Any

import pytest
from tests.core.builders import (
    Stage,
    body,
    cancelled,
    final,
    finished,
    given,
    joined,
    kinds,
    left,
    peer,
    replied,
    sends,
    submitted,
)

from dragoman.core.effects import (
    Append,
    Effect,
    RequestKind,
    SendCancel,
    SendInput,
    SendReply,
    SendStatus,
)
from dragoman.core.events import InputReceived, LedgerBlocked, Noted, ReplyKind, ResultRequested
from dragoman.model.body import EMPTY
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind


def statuses(effects: list[Effect]) -> list[SendStatus]:
    return [e for e in effects if isinstance(e, SendStatus)]


# --- the first answer ---------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["any", "all"])
def test_a_client_gets_one_notice_of_a_job_that_a_worker_gets_at_once(
    stage: Stage, target: str
) -> None:
    stage.tell(joined("w1"))
    sent = sends(stage.tell(submitted("j1", target=target)))
    assert sorted(sent) == ["SendWork -> w1", "dispatched -> c1"]


@pytest.mark.parametrize("more", [{}, {"target": "all"}, {"delay": 5.0}])
def test_a_client_is_told_of_a_job_that_waits(stage: Stage, more: dict[str, Any]) -> None:
    if "delay" in more:
        stage.tell(joined("w1"))
    assert sends(stage.tell(submitted("j1", **more))) == ["queued -> c1"]


# --- the same job again -------------------------------------------------------------------------


def test_the_same_job_again_is_the_same_job(stage: Stage) -> None:
    assert sends(stage.tell(submitted("j1"), submitted("j1"))) == ["queued -> c1", "queued -> c1"]
    stage.tell(joined("w1"))
    assert sends(stage.tell(submitted("j1"))) == ["dispatched -> c1"]
    stage.tell(finished("w1", "j1"))
    effects = stage.tell(submitted("j1"))
    assert kinds(effects) == []
    assert [(r.state, r.body) for r in final(effects)] == [
        (JobState.SUCCEEDED, body("result of w1"))
    ]
    assert stage.broker.state.store.counts["submitted"] == 1


def test_the_same_job_from_another_client_sends_its_replies_there(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    assert kinds(stage.tell(submitted("j1", client="c2"))) == ["adopted"]
    assert sends(stage.tell(finished("w1", "j1"))) == ["final -> c2"]


def test_the_same_key_again_is_the_same_job_under_the_id_it_was_asked_by(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", key="k"))
    effects = stage.tell(submitted("j2", client="c2", key="k"))
    assert kinds(effects) == ["adopted"]
    assert [e.job for e in effects if isinstance(e, SendReply)] == ["j2"]
    [reply] = final(stage.tell(finished("w1", "j1")))
    assert (reply.client, reply.job) == (peer("c2"), "j2")
    [answer] = statuses(stage.tell(ResultRequested(JobId("j2"), peer("c2"))))
    assert answer.status is not None
    assert (answer.job, answer.status.job) == ("j2", "j1")
    stage.restart()
    [again] = final(stage.tell(submitted("j1", key="k")))
    assert (again.client, again.job) == (peer("c1"), "j1")


def test_a_job_may_be_cancelled_by_the_id_it_was_asked_by(stage: Stage) -> None:
    stage.tell(submitted("j1", key="k"), submitted("j2", key="k"))
    [answer] = statuses(stage.tell(cancelled("j2")))
    assert (answer.job, stage.job("j1").state) == ("j2", JobState.CANCELLED)


@pytest.mark.parametrize(
    "again",
    [
        submitted("j1", text="another"),
        submitted("j1", "another service"),
        submitted("j2", key="k", text="another"),
    ],
)
def test_another_body_under_the_same_name_is_a_conflict(stage: Stage, again: object) -> None:
    stage.tell(submitted("j1", key="k"))
    effects = stage.tell(again)  # type: ignore[arg-type]
    assert kinds(effects) == ["refused"]
    [reply] = final(effects)
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.CONFLICT
    assert reply.state is None
    assert stage.job("j1").state is JobState.QUEUED


def test_every_part_of_a_finished_job_is_told_again(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"))
    stage.tell(finished("w1", "j1"), finished("w2", "j1", FaultCode.TASK_FAILED))
    effects = stage.tell(submitted("j1", target="all"))
    replies = [e for e in effects if isinstance(e, SendReply)]
    assert [r.kind for r in replies] == [ReplyKind.PART, ReplyKind.PART, ReplyKind.FINAL]
    assert [r.worker for r in replies] == ["w1", "w2", ""]


def test_an_answer_that_left_memory_is_pointed_at(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    stage.restart()
    [reply] = final(stage.tell(submitted("j1")))
    assert (reply.body, stage.bodies[reply.seq]) == (EMPTY, body("result of w1"))


# --- memoised answers ---------------------------------------------------------------------------


def test_forgotten_answers_are_worked_out_anew(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", memoize=True), finished("w1", "j1"))
    stage.tell(Noted(Kind.FORGOTTEN, service=ServiceName("a")))
    assert given(stage.tell(submitted("j2", memoize=True))) == [("j2", "w1", 1)]


def test_a_memoised_question_is_answered_from_the_earlier_success(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", memoize=True), finished("w1", "j1"))
    effects = stage.tell(submitted("j2", memoize=True))
    assert given(effects) == []
    assert [(r.job, r.body) for r in final(effects)] == [("j2", body("result of w1"))]


@pytest.mark.parametrize(
    "other",
    [
        submitted("j2", memoize=True, text="another"),
        submitted("j2", "b", memoize=True),
        submitted("j2"),
        submitted("j2", memoize=True, target="all"),
    ],
)
def test_another_question_is_not(stage: Stage, other: object) -> None:
    stage.tell(joined("w1", "a", "b"), submitted("j1", memoize=True), finished("w1", "j1"))
    assert given(stage.tell(other)) == [("j2", "w1", 1)]  # type: ignore[arg-type]


def test_the_answer_of_several_is_not_memoised(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", memoize=True, target="all"), finished("w1", "j1"))
    assert given(stage.tell(submitted("j2", memoize=True))) == [("j2", "w1", 1)]


def test_a_failure_is_not_memoised(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", memoize=True))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    assert given(stage.tell(submitted("j2", memoize=True))) == [("j2", "w1", 1)]


# --- cancel -------------------------------------------------------------------------------------


def test_a_queued_job_that_is_cancelled_never_starts(stage: Stage) -> None:
    stage.tell(submitted("j1"))
    effects = stage.tell(cancelled("j1", "c2"))
    assert kinds(effects) == ["cancel_asked", "ended"]
    assert [r.state for r in final(effects)] == [JobState.CANCELLED]
    assert [(s.client, s.asked) for s in statuses(effects)] == [(peer("c2"), RequestKind.CANCEL)]
    assert given(stage.tell(joined("w1"))) == []


def test_a_running_job_is_cancelled_when_its_worker_confirms(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"))
    effects = stage.tell(cancelled("j1"))
    assert [e.worker for e in effects if isinstance(e, SendCancel)] == [peer("w1")]
    assert final(effects) == []
    effects = stage.tell(finished("w1", "j1", FaultCode.CANCELLED))
    assert [r.fault.code for r in final(effects) if r.fault] == [FaultCode.CANCELLED]
    assert len(statuses(effects)) == 1


def test_a_cancel_that_nobody_confirms_ends_as_such(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1", cancel_grace=2.0), cancelled("j1"))
    assert final(stage.wait(1.9)) == []
    effects = stage.wait(0.2)
    assert [r.fault.code for r in final(effects) if r.fault] == [FaultCode.CANCEL_UNCONFIRMED]


def test_a_worker_that_cannot_confirm_is_not_waited_for(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    effects = stage.tell(cancelled("j1"))
    assert [r.fault.code for r in final(effects) if r.fault] == [FaultCode.CANCEL_UNCONFIRMED]
    assert [e.worker for e in effects if isinstance(e, SendCancel)] == [peer("w1")]


def test_a_result_may_come_before_the_confirmation(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"), cancelled("j1"))
    effects = stage.tell(finished("w1", "j1"))
    assert [r.state for r in final(effects)] == [JobState.SUCCEEDED]
    assert [s.status.state for s in statuses(effects) if s.status] == [JobState.SUCCEEDED]


def test_of_several_parts_the_waiting_end_at_once_and_the_running_when_confirmed(
    stage: Stage,
) -> None:
    stage.tell(joined("w1", can_cancel=True), joined("w2", credit=0))
    stage.tell(submitted("j1", target="all"))
    assert kinds(stage.tell(cancelled("j1"))) == ["cancel_asked", "gathered"]
    effects = stage.tell(finished("w1", "j1", FaultCode.CANCELLED))
    assert [r.state for r in final(effects)] == [JobState.CANCELLED]


def test_asking_twice_is_answered_once_and_recorded_once(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"))
    assert kinds(stage.tell(cancelled("j1"), cancelled("j1"))) == ["cancel_asked"]
    assert len(statuses(stage.tell(finished("w1", "j1", FaultCode.CANCELLED)))) == 1


@pytest.mark.parametrize("job", ["j1", "never seen"])
def test_a_cancel_of_what_is_over_or_unknown_is_answered(stage: Stage, job: str) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    effects = stage.tell(cancelled(job))
    assert kinds(effects) == []
    assert len(statuses(effects)) == 1


# --- input and questions ------------------------------------------------------------------------


def test_input_reaches_the_worker_that_asked_for_it(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), replied("w1", "j1", ReplyKind.INPUT_ASKED))
    effects = stage.tell(InputReceived(JobId("j1"), peer("c1"), body("yes")))
    assert kinds(effects) == ["input_given"]
    assert [(e.worker, e.body) for e in effects if isinstance(e, SendInput)] == [
        (peer("w1"), body("yes"))
    ]
    assert not stage.job().parts[0].is_waiting_for_input


def test_input_may_be_for_one_of_several_workers(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"))
    one = InputReceived(JobId("j1"), peer("c1"), body("x"), WorkerName("w2"))
    assert [e.worker for e in stage.tell(one) if isinstance(e, SendInput)] == [peer("w2")]
    everybody = InputReceived(JobId("j1"), peer("c1"), body("x"))
    assert len([e for e in stage.tell(everybody) if isinstance(e, SendInput)]) == 2


@pytest.mark.parametrize("job", ["j1", "never seen"])
def test_input_that_nobody_can_use_is_answered(stage: Stage, job: str) -> None:
    stage.tell(submitted("j1"))
    [status] = statuses(stage.tell(InputReceived(JobId(job), peer("c1"), body())))
    assert status.asked is RequestKind.INPUT
    assert status.fault is not None


def test_anybody_may_ask_what_became_of_a_job(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    [answer] = statuses(stage.tell(ResultRequested(JobId("j1"), peer("c9"))))
    assert answer.status is not None
    assert (answer.client, answer.status.state) == (peer("c9"), JobState.SUCCEEDED)
    assert answer.status.parts[0].body == body("result of w1")


def test_an_unknown_job_is_answered_as_unknown(stage: Stage) -> None:
    [answer] = statuses(stage.tell(ResultRequested(JobId("never"), peer("c1"))))
    assert answer.status is None
    assert answer.fault is not None
    assert answer.fault.code is FaultCode.UNKNOWN_JOB


# --- records ------------------------------------------------------------------------------------


def test_a_submission_is_recorded_with_all_that_recovery_needs(stage: Stage) -> None:
    stage.tell(submitted("j1", target="all", key="k", timeout=5.0, priority=3))
    record = stage.records[0]
    assert (record.target, record.key, record.priority) == ("all", "k", 3)
    assert record.deadline_at == stage.now + 5
    assert record.digest == body().digest()
    assert '"timeout":5.0' in record.terms


def test_a_client_that_left_hears_nothing_until_it_speaks_again(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), submitted("j2"), left("c1"))
    assert sends(stage.tell(finished("w1", "j1"))) == []
    effects = stage.tell(ResultRequested(JobId("j1"), peer("c1")), finished("w1", "j2"))
    assert sends(effects) == ["SendStatus -> c1", "final -> c1"]


def test_a_canceller_that_left_is_not_told(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"), cancelled("j1", "c2"), left("c2"))
    assert sends(stage.tell(finished("w1", "j1", FaultCode.CANCELLED))) == ["final -> c1"]


def test_bodies_are_stored_beside_their_records(stage: Stage) -> None:
    effects = stage.tell(submitted("j1"))
    [append] = [e for e in effects if isinstance(e, Append)]
    assert append.body == body()
    assert append.record.nbytes == body().size


def test_a_running_job_submitted_again_is_answered_with_its_workers(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("one"), submitted("every", target="all"))
    for job, workers in (("one", ("w1",)), ("every", ("w1", "w2"))):
        (again,) = stage.tell(submitted(job, target=stage.job(job).target))
        assert isinstance(again, SendReply)
        assert (again.kind, again.workers) == (ReplyKind.DISPATCHED, workers)


def test_results_that_left_memory_are_repeated_by_their_record(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"))
    stage.tell(finished("w1", "j1"), finished("w2", "j1"))
    parts = stage.job("j1").parts
    parts[0].body = None
    again = [e for e in stage.tell(submitted("j1", target="all")) if isinstance(e, SendReply)]
    assert [(e.kind, e.seq) for e in again] == [
        (ReplyKind.PART, parts[0].result_seq),
        (ReplyKind.PART, 0),
        (ReplyKind.FINAL, 0),
    ]
    assert [e.body.size > 0 for e in again] == [False, True, False]


def test_the_status_of_a_failed_job_has_its_fault(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1", FaultCode.TASK_FAILED))
    (answer,) = stage.tell(ResultRequested(JobId("j1"), peer("c2")))
    assert isinstance(answer, SendStatus)
    assert answer.fault is not None
    assert answer.fault.code is FaultCode.TASK_FAILED


# --- a ledger that takes no records -------------------------------------------------------------


def test_while_the_ledger_takes_no_records_new_jobs_are_refused_at_once(stage: Stage) -> None:
    stage.tell(submitted("old"))
    effects = stage.tell(LedgerBlocked("no space"), submitted("new"), submitted("old"))
    assert kinds(effects) == [], "a refusal that is recorded could not leave"
    (refused,) = final(effects)
    assert refused.job == "new"
    assert not refused.is_strict
    assert refused.fault is not None
    assert refused.fault.code is FaultCode.UNAVAILABLE
    assert "no space" in refused.fault.message
    assert sends(effects)[-1] == "queued -> c1", "a known job is answered"


def test_refusals_without_a_record_are_recorded_together_afterwards(stage: Stage) -> None:
    stage.tell(LedgerBlocked("no space"), submitted("a"), submitted("b"))
    (record,) = [e.record for e in stage.tell(LedgerBlocked()) if isinstance(e, Append)]
    assert record.kind == Kind.CHANGED
    assert "2 jobs were refused" in record.detail
    assert kinds(stage.tell(submitted("a"))) == ["submitted"]
    assert kinds(stage.tell(LedgerBlocked("x"), LedgerBlocked())) == []


def test_built_in_services_work_while_the_ledger_takes_no_records(stage: Stage) -> None:
    stage.tell(joined("w1", is_builtin=True), LedgerBlocked("no space"))
    assert kinds(stage.tell(submitted("j1"))) == ["submitted", "dispatched"]


def test_the_record_of_a_request_without_a_dialect_has_that_of_its_client(stage: Stage) -> None:
    stage.tell(replace(submitted("j1"), client=PeerId("nfp/c"), body=EMPTY))
    (record,) = [r for r in stage.records if r.kind == Kind.SUBMITTED]
    assert record.dialect == "nfp"
