"""Every vector both ways, and any bytes: a message or MalformedMessage."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.dcp.wire import (
    NARROW,
    WIDE,
    DcpReply,
    DcpRequest,
    Message,
    Ping,
    Pong,
    Reconnect,
    Registration,
    data_of,
    decode,
    encode,
    metadata_of,
)

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors/dcp/vectors.json").read_text()
)


def frames_of(vector: dict[str, Any]) -> tuple[bytes, ...]:
    frames = tuple(bytes.fromhex(frame) for frame in vector["frames_hex"])
    return frames[1:] if "router" in vector["direction"] else frames


def is_malformed(vector: dict[str, Any]) -> bool:
    # The text's own width was malformed to DagBox, not to us.
    return vector["label"].startswith("malformed") and "1-byte" not in vector["label"]


def name(vector: dict[str, Any]) -> str:
    return f"{vector['label']} {vector['dialect']}"


GOOD = [v for v in VECTORS if not is_malformed(v)]
BAD = [v for v in VECTORS if is_malformed(v)]


@pytest.mark.parametrize("vector", GOOD, ids=name)
def test_a_vector_is_read_and_written_to_the_same_bytes(vector: dict[str, Any]) -> None:
    frames = frames_of(vector)
    assert encode(decode(frames)) == frames


@pytest.mark.parametrize("vector", BAD, ids=name)
def test_a_malformed_vector_is_refused_with_a_reason(vector: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage, match=r"\w"):
        decode(frames_of(vector))


def test_the_vectors_hold_both_widths_and_all_malformed_cases() -> None:
    widths = {decode(frames_of(v)).width for v in GOOD}
    assert widths == {NARROW, WIDE}
    assert len(BAD) == 13


def test_a_request_is_taken_apart_at_its_delimiters() -> None:
    frames = (b"", b"DGBX\x01", b"\x04", b"echo", b"C1", b"", b"m1", b"m2", b"", b"d1", b"", b"d3")
    message = decode(frames)
    assert message == DcpRequest(b"echo", b"C1", (b"m1", b"m2", b"", b"d1", b"", b"d3"))
    assert isinstance(message, DcpRequest)
    assert metadata_of(message.tail) == (b"m1", b"m2")
    assert data_of(message.tail) == (b"d1", b"", b"d3")


def test_a_request_without_client_has_none() -> None:
    message = decode((b"", b"DGBX\x01", b"\x04\0\0\0", b"echo", b"", b"m", b"", b"d"))
    assert message == DcpRequest(b"echo", b"", (b"m", b"", b"d"), WIDE)


def test_only_the_type_frame_differs_between_the_widths() -> None:
    narrow = encode(DcpReply(b"C1", (b"m", b"", b"d"), NARROW))
    wide = encode(DcpReply(b"C1", (b"m", b"", b"d"), WIDE))
    assert narrow[2] == b"\x05"
    assert wide[2] == b"\x05\0\0\0"
    assert [*narrow[:2], *narrow[3:]] == [*wide[:2], *wide[3:]]


parts = st.binary(max_size=6)
metadata = st.lists(st.binary(min_size=1, max_size=6), max_size=3)
tails = st.builds(lambda m, d: (*m, b"", *d), metadata, st.lists(parts, max_size=3))
widths = st.sampled_from([NARROW, WIDE])
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Registration, parts, st.lists(parts, max_size=2).map(tuple), widths),
    st.builds(Ping, widths),
    st.builds(Pong, widths),
    st.builds(Reconnect, widths),
    st.builds(DcpRequest, parts, parts, tails, widths),
    st.builds(DcpReply, st.binary(min_size=1, max_size=6), tails, widths),
)


@given(messages)
def test_any_message_comes_back_as_it_went_out(message: Message) -> None:
    assert decode(encode(message)) == message


any_frames = st.lists(
    st.sampled_from([b"", b"DGBX\x01", b"DGBX\x02", b"\x01", b"\x04\0\0\0", b"\x05", b"x"])
    | st.binary(max_size=9),
    max_size=9,
)


@given(any_frames)
def test_any_frames_are_a_message_or_malformed(frames: list[bytes]) -> None:
    try:
        message = decode(frames)
    except MalformedMessage:
        return
    # Surplus frames after a bare header are not kept.
    kept = encode(message)
    assert kept == tuple(frames[: len(kept)])


@given(st.integers(0, 5).flatmap(lambda n: st.lists(parts, min_size=n, max_size=n)))
def test_any_frames_after_a_good_header_are_a_message_or_malformed(rest: list[bytes]) -> None:
    for code in range(1, 7):
        try:
            decode([b"", b"DGBX\x01", bytes([code]), *rest])
        except MalformedMessage:
            continue
