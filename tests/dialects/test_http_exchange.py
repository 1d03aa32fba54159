"""Requests and answers of our own HTTP peers, as frames."""

import pytest

from dragoman.dialects.http.exchange import STREAM, Response, read, request, segment, with_path
from dragoman.model.content import Unmappable


def test_a_request_says_all_that_its_transport_needs() -> None:
    frames = request(
        "t", "POST", "/p", {"b": b"\x00"}, lane="l", query={"topic": ["a", "b"]}, headers={"X": "1"}
    )
    assert frames == [
        *(b"t", b"l", b"once", b"POST", b"/p?topic=a&topic=b"),
        *(b"X: 1\ncontent-type: application/json", b'{"b":{"$bytes":"AA=="}}'),
    ]


def test_raw_bytes_are_sent_as_they_are() -> None:
    frames = request("t", "POST", "/p", raw=b"\x00", mode=STREAM)
    assert frames[2] == STREAM
    assert frames[5:] == [b"content-type: application/octet-stream", b"\x00"]


def test_a_request_goes_somewhere_else_with_all_it_says() -> None:
    frames = request("t", "POST", "/p", {"b": 1}, lane="l")
    assert with_path(frames, "/q") == request("t", "POST", "/q", {"b": 1}, lane="l")


def test_content_without_a_form_in_json_is_refused() -> None:
    with pytest.raises(Unmappable):
        request("t", "POST", "/p", {"x": float("inf")})


def test_answers_and_events_are_read_and_garbage_is_not() -> None:
    assert read([b"t", b"202", b"{}"]) == Response("t", 202, b"{}")
    assert read([b"s", b"open"]) == Response("s", 0, b"", "open")
    assert read([b"s", b"event", b"told", b"{}"]) == Response("s", 0, b"{}", "told")
    for frames in ([], [b"t"], [b"t", b"x", b""], [b"\xff", b"200", b""], [b"s", b"event"]):
        assert read(frames) is None


def test_a_body_that_is_no_object_is_an_empty_one() -> None:
    for body in (b"", b"[1]", b"{", b"\xff"):
        assert Response("t", 200, body).json() == {}


def test_a_name_is_one_segment_of_a_path_whatever_is_in_it() -> None:
    assert segment("a/b ?#%ü") == "a%2Fb%20%3F%23%25%C3%BC"
