"""The broker as a whole: every event type has a handler; one request is answered."""

from typing import get_args

import pytest
from tests.core.builders import START, Stage, body, finished, joined, kinds, sends, submitted

from dragoman.core.broker import HANDLERS
from dragoman.core.effects import Append, SendReply, SendWork
from dragoman.core.events import Event, Noted, ReplyKind, TimeAdvanced
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId
from dragoman.model.record import Kind


def test_every_event_has_its_handler() -> None:
    assert set(HANDLERS) == set(get_args(Event))


def test_a_request_goes_to_a_worker_and_its_answer_comes_back(stage: Stage) -> None:
    assert kinds(stage.tell(joined("w1"))) == ["joined"]
    asked = stage.tell(submitted("j1"))
    assert kinds(asked) == ["submitted", "dispatched"]
    assert sends(asked) == ["SendWork -> w1", "dispatched -> c1"]
    work = next(e for e in asked if isinstance(e, SendWork))
    assert (work.job, work.attempt, work.body) == ("j1", 1, body("question"))
    answered = stage.tell(finished("w1", "j1"))
    assert kinds(answered) == ["ended"]
    reply = next(e for e in answered if isinstance(e, SendReply))
    assert (reply.kind, reply.state, reply.body) == (
        ReplyKind.FINAL,
        JobState.SUCCEEDED,
        body("result of w1"),
    )


def test_records_are_numbered_without_gaps_and_carry_the_jobs_constants(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))
    assert [r.seq for r in stage.records] == [1, 2, 3, 4]
    for record in stage.records[1:]:
        assert (record.job, record.client, record.service) == ("j1", "local/c1", "a")
        assert record.submitted_at == START


def test_a_clock_that_is_set_back_does_not_turn_the_brokers_time_back(stage: Stage) -> None:
    stage.tell(submitted("j1"))
    stage.now -= 500
    stage.tell(submitted("j2"))
    assert [r.at for r in stage.records] == [START, START]


def test_what_changes_no_job_is_put_on_record_with_its_body(stage: Stage) -> None:
    noted = Noted(Kind.PUBLISHED, PeerId("nfp_1/w1"), "topic", body("event"), JobId("j9"))
    [effect] = stage.tell(noted)
    assert isinstance(effect, Append)
    assert effect.record.dialect == "nfp"
    assert (effect.record.detail, effect.record.nbytes) == ("topic", 5)
    assert effect.body == body("event")


def test_time_that_passes_with_nothing_due_does_nothing(stage: Stage) -> None:
    assert stage.tell(TimeAdvanced()) == []
    assert stage.broker.next_deadline() is None


@pytest.mark.parametrize("strict", [True, False])
def test_every_consequence_of_a_job_is_as_strict_as_the_job(stage: Stage, strict: bool) -> None:
    stage.tell(joined("w1"))
    effects = stage.tell(submitted("j1", strict=strict), finished("w1", "j1"))
    assert {e.is_strict for e in effects if isinstance(e, SendReply | SendWork)} == {strict}
