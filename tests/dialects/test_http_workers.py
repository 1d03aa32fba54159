"""HTTP workers as the broker's side knows them."""

import pytest
from tests.dialects.http_house import CLIENT, WORKER, House, answer_parts, call_parts, kinds

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.http import wire
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.record import Kind


def test_a_worker_gets_the_very_call_of_an_http_client() -> None:
    house = House()
    house.join()
    work = next(x for x in house.submit() if isinstance(x[1], wire.Work))
    assert work[0] == WORKER
    assert work[2] == call_parts("t", 1)
    assert work[1].timeout == 600.0


def test_a_report_that_is_posted_twice_counts_once() -> None:
    house = House()
    house.join()
    house.submit()
    report = wire.Report("r", "j", 1, "final")
    first = house.say(WORKER, report, answer_parts(2))
    assert first[-1][1].verdict == "taken"
    again = house.say(WORKER, report, answer_parts(2))
    assert kinds(again) == ["Heard"]
    assert again[0][1].verdict == "repeated"
    assert not [r for r in house.records if r.kind == Kind.LATE]


def test_a_report_on_an_old_attempt_is_late_recorded_and_not_applied() -> None:
    house = House()
    house.join()
    house.submit()
    sent = house.say(WORKER, wire.Report("r", "j", 7, "final"), answer_parts(2))
    assert sent[-1][1].verdict == "late"
    assert [r.kind for r in house.records][-1] == Kind.LATE


def test_a_report_about_nothing_known_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        House().say(WORKER, wire.Report("r", "j", 1, "gossip"))


def test_the_worker_lives_as_long_as_it_beats() -> None:
    house = House(HttpSettings(beat_every=1.0, missed_allowed=3))
    house.join()
    house.submit()
    for _ in range(10):
        house.pass_time(1.0)
        house.say(WORKER, wire.Beat())
    assert Kind.LEFT not in [r.kind for r in house.records]
    sent = house.pass_time(3.5)
    assert "Dismissed" in kinds(sent)
    assert Kind.REQUEUED in [r.kind for r in house.records]


def test_a_worker_that_cannot_poll_while_it_works_may_ask_for_a_longer_lease() -> None:
    house = House(HttpSettings(beat_every=1.0, missed_allowed=3, longest_lease=30.0))
    house.join(busy_lease=20.0)
    house.submit()
    house.pass_time(15.0)
    assert Kind.LEFT not in [r.kind for r in house.records]
    house.pass_time(6.0)
    assert Kind.LEFT in [r.kind for r in house.records]


def test_one_that_comes_back_goes_on_with_what_it_holds() -> None:
    house = House()
    house.join()
    house.submit()
    house.join(holds=("j",))
    sent = house.say(WORKER, wire.Report("r", "j", 1, "final"), answer_parts(2))
    assert sent[-1][1].verdict == "taken"
    assert house.records[-1].state == "succeeded"


def test_one_that_begins_anew_has_its_job_run_again() -> None:
    house = House()
    house.join()
    house.submit()
    house.join(holds=None)
    assert [r.attempt for r in house.records if r.kind == Kind.DISPATCHED] == [1, 2]


def test_what_a_leaving_worker_holds_goes_to_another() -> None:
    house = House()
    house.join(b"worker:0a")
    house.submit()
    house.join(b"worker:0b")
    sent = house.say(b"worker:0a", wire.Leave())
    assert [a for a, m, _ in sent if isinstance(m, wire.Work)] == [b"worker:0b"]


def test_a_job_handed_back_or_passed_on_goes_elsewhere() -> None:
    house = House()
    house.join(b"worker:0a")
    house.submit()
    house.join(b"worker:0b")
    sent = house.say(b"worker:0a", wire.Report("r", "j", 1, "handed_back"))
    assert b"worker:0b" in [a for a, m, _ in sent if isinstance(m, wire.Work)]
    house.say(b"worker:0c", wire.Join("r", "c", ("next",)))
    sent = house.say(b"worker:0b", wire.Forward("r", "j", 2, "next", "u"), call_parts("u"))
    assert b"worker:0c" in [a for a, m, _ in sent if isinstance(m, wire.Work)]
    assert sent[-1][1].verdict == "taken"


def test_questions_and_published_events_pass() -> None:
    house = House()
    house.join()
    house.submit()
    sent = house.say(WORKER, wire.Report("r", "j", 1, "ask"), answer_parts("name?"))
    assert [(a, m.about) for a, m, _ in sent if isinstance(m, wire.Told)] == [
        (CLIENT, "input_asked")
    ]
    house.say(WORKER, wire.Publish("r", "my.topic"), answer_parts(1))
    assert (house.records[-1].kind, house.records[-1].detail) == (Kind.PUBLISHED, "my.topic")


def test_only_so_many_reports_are_remembered() -> None:
    house = House(HttpSettings(remembered=2))
    house.join(credit=10)
    for name in "abcd":
        house.submit(name)
        house.say(WORKER, wire.Report("r", name, 1, "final"), answer_parts(1))
    assert house.say(WORKER, wire.Report("r", "a", 1, "final"))[-1][1].verdict == "late"
    assert house.say(WORKER, wire.Report("r", "d", 1, "final"))[-1][1].verdict == "repeated"
