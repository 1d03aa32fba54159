"""The codec of log streams: the vectors in both directions, and lines that carry progress."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.ncl_vectors import body

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl import logs


def test_a_request_is_byte_equal_both_ways() -> None:
    request = logs.read_request(body("logs.request"))
    assert request.execution == "e-0c9a2f33-8d57-4b7e-9e6d-31b4a5e2c7d8"
    assert (request.is_tail, request.is_following) == (False, True)
    assert logs.write_request(request) == body("logs.request")


def test_a_line_is_byte_equal_both_ways() -> None:
    line = logs.read_stream(body("logs.data"))
    assert line == logs.LogLine("hello\n")
    assert logs.write_line(line) == body("logs.data")


def test_the_answer_of_a_consumer_is_read_and_written() -> None:
    assert logs.read_non_active(body("logs.consumer.heartbeat-reply")) == {}
    assert logs.write_non_active({}) == body("logs.consumer.heartbeat-reply")


def test_a_close_says_why() -> None:
    close = logs.Close(logs.GOING_AWAY, "bye")
    text = logs.write_close(close)
    assert text == b'{"type":2,"closeError":{"Code":1001,"Text":"bye"}}'
    assert logs.read_stream(text) == close


def test_an_error_travels_instead_of_a_line() -> None:
    line = logs.LogLine("", error="no such engine")
    assert logs.read_stream(logs.write_line(line)) == line
    assert logs.read_line(line) == ({"error": "no such engine"}, None)


def test_active_streams_are_listed_by_request_subject() -> None:
    streams = {"node.compute.n.ExecutionLogs/v1": ["a", "b"]}
    assert logs.read_active(logs.write_active(streams)) == streams


def test_progress_and_pieces_cross_as_lines() -> None:
    assert logs.read_line(logs.progress_line({"done": 1})) == ({"done": 1}, None)
    assert logs.read_line(logs.chunk_line(b"\x00\xff")) == (None, b"\x00\xff")


@pytest.mark.parametrize("text", ["hello\n", "{", '{"progress":1,"more":2}', '{"chunk":"?"}', "{}"])
def test_other_lines_are_events_of_their_own(text: str) -> None:
    assert logs.read_line(logs.LogLine(text)) == ({"stdout": text}, None)
    assert logs.read_line(logs.LogLine(text, logs.STDERR)) == ({"stderr": text}, None)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    for read in (logs.read_request, logs.read_stream, logs.read_active, logs.read_non_active):
        try:
            read(data)
        except MalformedMessage:
            continue
