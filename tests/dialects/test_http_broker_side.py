"""The broker's side of the HTTP link: clients, statuses and events."""

import json

import pytest
from tests.dialects.http_house import CLIENT, WORKER, House, answer_parts, call_parts, kinds

from dragoman.core.effects import RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import MalformedMessage, Subscribed
from dragoman.dialects.http import wire
from dragoman.dialects.http.broker_side import HttpBrokerSide
from dragoman.dialects.json_values import to_jsonable
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind, Record


def test_a_submission_is_acknowledged_after_all_that_it_caused() -> None:
    house = House()
    house.join()
    sent = house.submit()
    assert kinds(sent) == ["Told", "Told", "Work", "Heard"]
    assert [m.about for _, m, _ in sent[:2]] == ["queued", "dispatched"]
    submitted = next(r for r in house.records if r.kind == Kind.SUBMITTED)
    assert submitted.strict
    assert submitted.client == "http/alice"


def test_an_acknowledgement_is_strict() -> None:
    side = HttpBrokerSide()
    said = side.receive(CLIENT, wire.encode(wire.Submit("r", "j", "s"), call_parts("t")), 1.0)
    assert said[-1].is_strict  # type: ignore[union-attr]


def test_a_refusal_comes_before_the_acknowledgement_and_has_no_state() -> None:
    house = House()
    house.submit()
    sent = house.say(CLIENT, wire.Submit("r2", "j", "s", "t"), call_parts("t", 2))
    assert kinds(sent) == ["Told", "Heard"]
    assert (sent[0][1].fault, sent[0][1].state) == ("conflict", "")


def test_a_target_that_cannot_be_read_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        House().submit(target=" , ")


def test_a_brokers_message_to_the_broker_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        House().say(CLIENT, wire.Heard("r"))


def test_a_standing_has_every_part_with_its_result() -> None:
    house = House()
    house.join(b"worker:0a")
    house.join(b"worker:0b")
    house.submit(target="all")
    house.say(b"worker:0a", wire.Report("r", "j", 1, "final"), answer_parts("one"))
    ((address, standing, frames),) = house.say(CLIENT, wire.Ask("j"))
    assert address == CLIENT
    assert (standing.state, standing.target) == ("running", "all")
    assert [(s.worker, s.state, s.frames) for s in standing.shares] == [
        ("worker:0a", "succeeded", 1),
        ("worker:0b", "running", 0),
    ]
    assert json.loads(frames[0]) == {"value": "one"}


def test_a_job_nobody_knows_is_said_to_be_unknown() -> None:
    ((_, standing, _),) = House().say(CLIENT, wire.Ask("nope"))
    assert (standing.known_as, standing.fault) == ("", "unknown_job")


def test_a_cancel_is_answered_when_the_worker_has_confirmed() -> None:
    house = House()
    house.join()
    house.submit()
    sent = house.say(CLIENT, wire.Cancel("j"))
    assert [(a, type(m)) for a, m, _ in sent] == [(WORKER, wire.Stop)]
    sent = house.say(WORKER, wire.Report("r", "j", 1, "cancelled"))
    standing = next(m for _, m, _ in sent if isinstance(m, wire.Standing))
    assert (standing.asked, standing.state, standing.fault) == ("cancel", "cancelled", "cancelled")


def test_input_reaches_the_worker_and_is_acknowledged() -> None:
    house = House()
    house.join()
    house.submit()
    sent = house.say(CLIENT, wire.Input("r2", "j"), answer_parts("bob"))
    assert [(a, type(m)) for a, m, _ in sent] == [(WORKER, wire.Given), (CLIENT, wire.Heard)]


def test_input_that_is_of_no_use_is_answered_before_it_is_acknowledged() -> None:
    sent = House().say(CLIENT, wire.Input("r", "nope"), answer_parts(1))
    assert kinds(sent) == ["Standing", "Heard"]
    assert sent[0][1].asked == "input"


def test_a_result_without_a_form_in_json_is_told_as_such() -> None:
    side = HttpBrokerSide()
    client, job, service = PeerId("http/alice"), JobId("j"), ServiceName("s")
    body = Body("martian", (b"?",))
    (send,) = side.render(SendReply(client, job, ReplyKind.FINAL, service, body=body), 1.0)
    told, parts = wire.decode(send.frames)
    assert (told.fault, parts) == ("unmappable", ())
    (send,) = side.render(SendStatus(client, job, RequestKind.RESULT, None), 1.0)
    assert wire.decode(send.frames)[0].known_as == ""


def test_an_event_is_the_record_without_its_empty_fields_or_what_was_published() -> None:
    side = HttpBrokerSide()
    wish = Subscribed(PeerId("http/alice"), ("*",), 0, "n")
    record = Record(5, 2.0, Kind.ENDED, "j", state="succeeded")
    (send,) = side.render_event(wish, record, None)
    event, (data,) = wire.decode(send.frames)
    assert (event.name, event.seq, event.topic) == ("n", 5, "broker.ended")
    assert json.loads(data)["event"]["state"] == "succeeded"
    assert "fault" not in json.loads(data)["event"]
    published = Record(6, 2.0, Kind.PUBLISHED, detail="my.topic")
    (send,) = side.render_event(wish, published, Body("http", answer_parts({"b": b"\x00"})))
    event, (data,) = wire.decode(send.frames)
    assert event.topic == "my.topic"
    assert json.loads(data)["event"] == to_jsonable({"b": b"\x00"})


def test_the_applications_own_watch_gets_names_and_no_content() -> None:
    wish = Subscribed(PeerId("http/:watch"), ("broker.ended",), 0, "ended")
    (send,) = HttpBrokerSide().render_event(wish, Record(5, 2.0, Kind.ENDED, "j"), None)
    event, parts = wire.decode(send.frames)
    assert (event.job, parts) == ("j", ())


def test_a_subscription_is_passed_on() -> None:
    said = HttpBrokerSide().receive(CLIENT, wire.encode(wire.Subscribe("n", ("a",), 3)), 1.0)
    assert said == [Subscribed(PeerId("http/alice"), ("a",), 3, "n")]
