"""The encoding of ZMTP, against bytes captured from libzmq 4.3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.transports import zmtp_wire as words

#: A DEALER's greeting and its READY, and a ROUTER's READY, captured from libzmq 4.3.5.
GREETING = bytes.fromhex("ff00000000000000027f03014e554c4c" + "00" * 48)
READY = bytes.fromhex(
    "042a0552454144590b536f636b65742d54797065000000064445414c4552084964656e746974790000000177"
)
ROUTERS_READY = bytes.fromhex(
    "04290552454144590b536f636b65742d5479706500000006524f55544552084964656e7469747900000000"
)


def test_a_greeting_names_version_and_mechanism() -> None:
    ours = words.OPENING + words.rest_of_greeting(b"NULL", False)
    assert len(ours) == len(GREETING) == words.GREETING
    assert ours[10:] == GREETING[10:]
    assert words.mechanism_of(GREETING) == words.mechanism_of(ours) == b"NULL"
    assert words.rest_of_greeting(b"CURVE", True)[21] == 1


def test_a_real_dealers_ready_is_read() -> None:
    name, data = words.read_command(READY[2:])
    assert name == b"READY"
    assert words.read_properties(data) == {b"socket-type": b"DEALER", b"identity": b"w"}


def test_our_ready_is_written_as_libzmq_would() -> None:
    written = words.frame(words.COMMAND, words.command(b"READY", words.ROUTER))
    assert written == ROUTERS_READY


def test_an_error_command_carries_its_reason() -> None:
    assert words.error(b"400") == b"\x05ERROR\x03400"


@given(st.binary(max_size=80))
def test_any_bytes_are_properties_or_none(data: bytes) -> None:
    found = words.read_properties(data)
    assert found is None or sum(5 + len(n) + len(v) for n, v in found.items()) <= len(data)


@given(st.binary(max_size=40))
def test_any_bytes_have_a_name_and_the_rest(data: bytes) -> None:
    name, rest = words.read_command(data)
    assert data[1:] == name + rest


@given(st.integers(0, 70_000))
def test_the_head_of_a_frame_says_its_size(size: int) -> None:
    for head, flags in ((words.head(size), words.MORE), (words.last_head(size), 0)):
        assert head + bytes(size) == words.frame(flags, bytes(size))


@pytest.mark.parametrize("sizes", [(0,), (255,), (256,), (3, 0, 300, 5), (1, 2, 300)])
def test_a_message_is_its_frames_and_only_the_last_one_ends_it(sizes: tuple[int, ...]) -> None:
    frames = [b"x" * size for size in sizes]
    out = [b"before"]
    assert words.add_message(out, frames) == sum(sizes)
    expected = [words.frame(words.MORE, body) for body in frames[:-1]]
    expected.append(words.frame(0, frames[-1]))
    assert b"".join(out) == b"before" + b"".join(expected)
