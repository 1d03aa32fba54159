"""Every vector both ways, headers by counting, and any frames: a message or MalformedMessage."""

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.wire import (
    REQ,
    ZssAddress,
    ZssMessage,
    body_of,
    decode,
    encode,
    is_success,
    message_of,
    read_address,
    status_code,
    with_sid,
    with_time,
    write_address,
)

VECTORS: list[dict[str, Any]] = [
    vector
    for vector in json.loads((Path(__file__).parents[1] / "vectors/zss/vectors.json").read_text())
    if not vector["label"].endswith(("[greeting]", "[command]"))
]
ODD = ("6 frames", "1 frame", "garbage 1 frame")


def frames_of(vector: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(frame) for frame in vector["frames_hex"])


GOOD = [v for v in VECTORS if len(v["frames_hex"]) in (7, 8)]
BAD = [v for v in VECTORS if len(v["frames_hex"]) not in (7, 8)]


@pytest.mark.parametrize("vector", GOOD, ids=lambda v: v["label"])
def test_a_vector_is_read_and_written_to_the_same_bytes(vector: dict[str, Any]) -> None:
    frames = frames_of(vector)
    assert encode(decode(frames)) == frames


@pytest.mark.parametrize("vector", BAD, ids=lambda v: v["label"])
def test_a_vector_of_another_size_is_malformed(vector: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage, match="7 or 8"):
        decode(frames_of(vector))


def test_there_are_vectors_of_both_sizes_and_of_wrong_ones() -> None:
    assert {len(v["frames_hex"]) for v in GOOD} == {7, 8}
    assert len(BAD) == 3


def test_a_body_keeps_every_frame_but_type_and_client() -> None:
    message = ZssMessage(REQ, b"r", b"a", b"h", b"s", b"p", b"ZSS:9.9")
    assert message_of(body_of(message), REQ) == message


# --- addresses


def test_the_addresses_of_both_libraries_are_read() -> None:
    js = bytes.fromhex("83a3736964a4504f4e47a87376657273696f6ea12aa476657262a450494e47")
    ruby = bytes.fromhex("83a3736964a4504f4e47a476657262a450494e47a87376657273696f6ea12a")
    assert read_address(js) == read_address(ruby) == ZssAddress("PONG", "PING")
    assert write_address("PONG", "PING") == js


def test_what_an_address_leaves_out_is_the_newest_and_no_verb() -> None:
    assert read_address(msgpack.packb({"sid": "PONG"})) == ZssAddress("PONG", "", "*")


def test_what_else_an_address_says_is_kept() -> None:
    assert read_address(write_address("A", "b", job="j1")) == ZssAddress(
        "A", "b", "*", {"job": "j1"}
    )


@pytest.mark.parametrize(
    "frame",
    [b"", b"\xc1", b"\xc0", b"\x93\x01\x02\x03", *map(msgpack.packb, [{"verb": "x"}, {"sid": 5}])],
)
def test_an_address_that_names_no_service_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessage, match="address"):
        read_address(frame)


def test_a_verb_that_is_no_text_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="verb"):
        read_address(msgpack.packb({"sid": "a", "verb": 7}))


def test_an_address_with_private_codes_is_read() -> None:
    assert read_address(b"\x82\xa3sid\xa1A\xa1x\xc4").sid == "A"
    long = "y" * 600
    assert read_address(write_address("A", long)).verb == long


def test_the_right_sid_leaves_the_address_as_it_came() -> None:
    ruby = oldpack.encode({"sid": "pong", "verb": "ping", "sversion": "*"})
    assert with_sid(ruby, "pong") is ruby
    assert with_sid(ruby, "PONG") == oldpack.encode(
        {"sid": "PONG", "verb": "ping", "sversion": "*"}
    )


# --- headers


@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 300, 65_534, 65_535, 65_536])
def test_a_header_is_added_by_counting(count: int) -> None:
    before = {f"k{n}": n for n in range(count)}
    frame = msgpack.packb(before, use_bin_type=False)
    after = msgpack.unpackb(with_time(frame, b"micro.bfer", 1_795_000_000.1234))
    assert after == before | {"micro.bfer": 1_795_000_000_123.0}


def test_headers_that_are_nil_become_a_map() -> None:
    added = with_time(b"\xc0", b"micro.bbes", 2.0)
    assert added == b"\x81\xaamicro.bbes\xcb" + bytes.fromhex("409f400000000000")


def test_a_header_that_is_there_stays_as_it_is() -> None:
    frame = with_time(b"\x80", b"micro.bfer", 1.0)
    assert with_time(frame, b"micro.bfer", 2.0) == frame


def test_headers_with_undefined_values_are_not_decoded() -> None:
    assert with_time(b"\x81\xa1x\xc4", b"m", 0.0) == b"\x82\xa1x\xc4\xa1m\xcb" + bytes(8)


@pytest.mark.parametrize(
    "frame", [b"", b"\x93", b"junk", b"\xde", b"\xdf\x00", b"\xdf" + b"\xff" * 4]
)
def test_what_is_no_map_gets_no_header(frame: bytes) -> None:
    assert with_time(frame, b"micro.bfer", 1.0) == frame


def test_the_count_of_a_large_map_grows() -> None:
    frame = b"\xdf\x00\x01\x00\x00"
    assert with_time(frame, b"m", 0.0)[:5] == b"\xdf\x00\x01\x00\x01"


# --- statuses


def test_a_status_is_ascii_digits_and_everything_else_is_none() -> None:
    assert [status_code(s) for s in (b"200", b"404", b"", b"null", b"20000", b"-1")] == [
        200, 404, None, None, None, None,
    ]  # fmt: skip
    assert [is_success(s) for s in (b"200", b"204", b"299", b"300", b"102", b"")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


@given(st.lists(st.binary(max_size=8), max_size=10))
def test_any_frames_are_a_message_or_malformed(frames: list[bytes]) -> None:
    try:
        message = decode(frames)
    except MalformedMessage:
        assert len(frames) not in (7, 8)
        return
    assert encode(message) == tuple(frames)
    try:
        read_address(message.address)
    except MalformedMessage:
        return
