"""The queue of deliveries: what is open, when it is due, where to read on."""

from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms, terms_text
from dragoman.server.webhook_queue import WebhookQueue

URL = "https://hooks.example.org/x?key=secret"
OWN = "https://own.example.org/y"


def ended(seq: int, job: str, service: str = "mail", hook: str = "") -> Record:
    terms = terms_text(Terms(webhook=hook))
    return Record(seq, 1.0, Kind.ENDED, job, service=service, state="succeeded", terms=terms)


def queue() -> WebhookQueue:
    return WebhookQueue({"mail": URL}, 0, 3)


def test_an_end_goes_to_the_url_of_its_service_and_to_its_own() -> None:
    found = queue()
    for record in (ended(1, "j1"), ended(2, "j2", "other"), ended(3, "j3", "other", OWN)):
        found.read(record)
    found.read(ended(4, "j4", hook=OWN))
    due = [(each.record.job, each.url, each.is_own) for each in found.due(0.0)]
    assert due == [("j1", URL, False), ("j3", OWN, True), ("j4", URL, False), ("j4", OWN, True)]


def test_a_recorded_outcome_ends_one_delivery_and_not_its_twin() -> None:
    found, again = queue(), queue()
    record = ended(1, "j1", hook=OWN)
    found.read(record)
    by_service, own = found.due(0.0)
    noted = found.delivered(own)
    assert noted.detail == "the job's own: own.example.org: delivered, attempt 0"
    assert found.due(0.0) == [by_service]
    again.read(record)
    again.read(Record(2, 2.0, Kind.NOTIFIED, "j1", detail=noted.detail))
    assert [each.is_own for each in again.due(0.0)] == [False]


def test_a_failure_is_repeated_later_and_given_up_at_last() -> None:
    found = queue()
    found.read(ended(1, "j1"))
    [delivery] = found.due(0.0)
    for attempt, next_at in ((1, 11.0), (2, 12.0)):
        delivery.attempts = attempt
        assert found.failed(delivery, "down", 10.0) is None
        assert found.next_at() == next_at
        assert found.due(next_at - 0.1) == []
    delivery.attempts = 3
    noted = found.failed(delivery, "down", 10.0)
    assert noted is not None
    assert noted.detail == "hooks.example.org: given up after 3 attempts: down"
    assert found.next_at() is None


def test_the_position_is_before_the_oldest_that_is_open() -> None:
    found = queue()
    found.read(ended(1, "j1", "other"))
    assert found.kept_position == 1
    found.read(ended(2, "j2"))
    found.read(ended(3, "j3"))
    assert found.kept_position == 1
    found.refused(found.due(0.0)[0], "not listed")
    assert found.kept_position == 1, "the outcome is not on disk"
    assert [each.record.job for each in found.due(0.0)] == ["j3"]
    found.read(Record(4, 2.0, Kind.NOTIFIED, "j2"))
    assert found.kept_position == 2
    found.delivered(found.due(0.0)[0])
    assert (found.due(0.0), found.next_at(), len(found)) == ([], None, 1)
    found.read(Record(5, 2.0, Kind.NOTIFIED, "j3"))
    assert (found.kept_position, len(found)) == (5, 0)
