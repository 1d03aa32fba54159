"""Denied events: recorded and answered; nothing else changes."""

import pytest
from tests.core.builders import (
    Stage,
    beat,
    body,
    cancelled,
    final,
    finished,
    forwarded,
    granted,
    joined,
    kinds,
    left,
    peer,
    sends,
    submitted,
)

from dragoman.core.denials import _HANDLERS
from dragoman.core.effects import Append, Dismiss, RequestKind, SendStatus
from dragoman.core.events import (
    DrainRequested,
    Event,
    EventDenied,
    InputReceived,
    JobSubmitted,
    Noted,
    ResultRequested,
)
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, Principal
from dragoman.model.record import Kind

NO = Fault(FaultCode.DENIED, "no rule allows it")
MALLORY = Principal("mallory")


def no(event: Event, **said: bool) -> EventDenied:
    return EventDenied(event, NO, MALLORY, **said)  # type: ignore[arg-type]


def test_a_submission_is_turned_down_like_any_other_that_is(stage: Stage) -> None:
    effects = stage.tell(joined(), no(submitted()))
    assert kinds(effects) == ["joined", "refused"]
    (reply,) = final(effects)
    assert reply.fault == NO
    record = stage.records[-1]
    assert (record.fault, record.digest) == ("denied", body().digest())
    assert not stage.broker.state.store.jobs


@pytest.mark.parametrize(
    ("event", "asked"),
    [
        (ResultRequested(JobId("j1"), peer("c2")), RequestKind.RESULT),
        (cancelled("j1", "c2"), RequestKind.CANCEL),
        (InputReceived(JobId("j1"), peer("c2"), body()), RequestKind.INPUT),
    ],
)
def test_a_question_is_answered_with_no_and_nothing_of_the_job(
    stage: Stage, event: Event, asked: RequestKind
) -> None:
    stage.tell(joined(), submitted())
    effects = stage.tell(no(event))
    assert kinds(effects) == ["denied"]
    assert effects[1:] == [SendStatus(peer("c2"), JobId("j1"), asked, None, NO, False)]
    record = stage.records[-1]
    assert (record.principal, record.peer, record.job) == ("mallory", "local/c2", "j1")
    assert not stage.job().cancel_asked_at


@pytest.mark.parametrize("event", [joined("w2"), beat("w2"), granted("w2"), finished("w2", "j1")])
def test_a_stranger_among_the_workers_is_dismissed(stage: Stage, event: Event) -> None:
    effects = stage.tell(no(event))
    assert kinds(effects) == ["denied"]
    assert effects[1:] == [Dismiss(peer("w2"), NO.message)]


def test_a_worker_that_may_not_be_one_any_more_loses_its_session_and_its_jobs(
    stage: Stage,
) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted())
    effects = stage.tell(no(joined("w1")))
    assert kinds(effects) == ["denied", "left", "requeued", "dispatched"]
    assert "Dismiss -> w1" in sends(effects)


def test_a_worker_in_whose_name_somebody_else_spoke_keeps_its_session(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted())
    effects = stage.tell(no(joined("w1"), dismisses=False), no(left("w1"), dismisses=False))
    assert kinds(effects) == ["denied", "denied"]
    assert len(effects) == 2
    assert kinds(stage.tell(finished("w1", "j1"))) == ["ended"]


def test_a_worker_that_may_not_pass_its_job_on_has_failed_it(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted())
    effects = stage.tell(no(forwarded("w1", "j1", "b")))
    assert kinds(effects) == ["denied", "ended"]
    (reply,) = final(effects)
    assert reply.fault == NO
    assert stage.tell(no(forwarded("w1", "j1", "b"), dismisses=False))[1:] == []


def test_what_a_stranger_wants_on_record_is_not_put_there(stage: Stage) -> None:
    effects = stage.tell(no(Noted(Kind.PUBLISHED, peer("w9"), "topic", body("event"))))
    assert kinds(effects) == ["denied"]
    assert all(e.body is None for e in effects if isinstance(e, Append))


def test_a_flood_of_refusals_is_answered_but_not_all_on_record(stage: Stage) -> None:
    assert kinds(stage.tell(no(submitted(), is_recorded=False))) == []
    assert kinds(stage.tell(no(beat("w9"), is_recorded=False))) == []
    assert final(stage.tell(no(submitted(), is_recorded=False)))


def test_the_id_of_somebody_elses_job_is_taken(stage: Stage) -> None:
    stage.tell(joined(), submitted())
    mine = submitted()
    theirs = JobSubmitted(
        mine.job, peer("c2"), mine.service, mine.body, mine.target, mine.terms, principal=MALLORY
    )
    effects = stage.tell(theirs)
    (reply,) = final(effects)
    assert reply.fault is not None
    assert (kinds(effects), reply.fault.code) == (["refused"], FaultCode.CONFLICT)
    assert stage.job().client == peer("c1")


def test_a_worker_is_let_go_for_the_reason_that_is_given(stage: Stage) -> None:
    stage.tell(joined())
    stage.tell(DrainRequested(peer("w1"), at_once=True, reason="its key was revoked"))
    assert stage.records[-1].detail == "its key was revoked"


def test_every_event_that_can_be_refused_is(stage: Stage) -> None:
    assert set(_HANDLERS) == set(EventDenied.__annotations__["event"].__args__)
