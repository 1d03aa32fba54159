"""What a broker reads in the note of a request."""

import pytest

from dragoman.core.effects import RequestKind
from dragoman.core.events import InputReceived, JobCancelled, ResultRequested
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.note_requests import (
    note_target,
    note_terms,
    question_event,
    request_kind,
    service_name,
)
from dragoman.model.body import Body
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId, WorkerName
from dragoman.model.target import ANY
from dragoman.model.terms import Terms

JOB, CLIENT, BODY = JobId("j"), PeerId("dcp/c"), Body("dcp", (b"",))


def test_a_service_named_like_all_services_is_written_in_hex() -> None:
    assert service_name(b"math") == "math"
    assert service_name(EVERY_SERVICE.encode()) == "0x" + EVERY_SERVICE.encode().hex()


def test_a_note_may_set_timeout_priority_and_options() -> None:
    terms = note_terms(Terms(), {"timeout": 5, "priority": -3})
    assert (terms.timeout, terms.priority) == (5.0, -3)
    assert note_terms(terms, {}) == terms


@pytest.mark.parametrize("odd", [True, 2**31, -(2**31), "1", None, 1.5])
def test_an_odd_priority_is_ignored(odd: object) -> None:
    assert note_terms(Terms(), {"priority": odd}) == Terms()


@pytest.mark.parametrize("odd", [0, -1, 1e9, "1", None])
def test_an_odd_timeout_is_ignored(odd: object) -> None:
    assert note_terms(Terms(), {"timeout": odd}) == Terms()


def test_a_target_that_cannot_be_read_is_malformed() -> None:
    assert note_target({}) == ANY
    with pytest.raises(MalformedMessage):
        note_target({"target": ","})


def test_a_client_asks_for_a_result_a_cancel_or_gives_input() -> None:
    def asked(**note: str) -> object:
        return question_event(request_kind(note), JOB, CLIENT, note, BODY)

    assert asked(ask="result") == ResultRequested(JOB, CLIENT)
    assert asked(ask="cancel") == JobCancelled(JOB, CLIENT)
    assert asked(ask="input") == InputReceived(JOB, CLIENT, BODY)
    assert asked(ask="input", worker="w") == InputReceived(JOB, CLIENT, BODY, WorkerName("w"))
    assert request_kind({"ask": "result"}) is RequestKind.RESULT
    with pytest.raises(MalformedMessage, match="unknown `ask`"):
        asked(ask="why")
