"""The frames of MDP: the examples of both texts, round trips, and arbitrary input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.mdp.wire import (
    V1,
    ClientReply,
    ClientRequest,
    MdpDisconnect,
    MdpHeartbeat,
    MdpReady,
    Message,
    WorkerReply,
    WorkerRequest,
    decode,
    encode,
)

#: Each command as its text writes it: direction, message, frames.
TEXT: list[tuple[bool, Message, list[bytes]]] = [
    (True, ClientRequest(b"echo", (b"a", b"b"), V1), [b"", b"MDPC01", b"echo", b"a", b"b"]),
    (False, ClientReply(b"echo", (b"r",), True, V1), [b"", b"MDPC01", b"echo", b"r"]),
    (True, MdpReady(b"echo", (), V1), [b"", b"MDPW01", b"\x01", b"echo"]),
    (False, WorkerRequest(b"c", (b"q",), V1), [b"", b"MDPW01", b"\x02", b"c", b"", b"q"]),
    (True, WorkerReply(b"c", (b"r",), True, V1), [b"", b"MDPW01", b"\x03", b"c", b"", b"r"]),
    (True, MdpHeartbeat((), V1), [b"", b"MDPW01", b"\x04"]),
    (True, MdpDisconnect(V1), [b"", b"MDPW01", b"\x05"]),
    (True, ClientRequest(b"echo", (b"a",)), [b"MDPC02", b"\x01", b"echo", b"a"]),
    (False, ClientReply(b"echo", (b"p",), False), [b"MDPC02", b"\x02", b"echo", b"p"]),
    (False, ClientReply(b"echo", (b"r",)), [b"MDPC02", b"\x03", b"echo", b"r"]),
    (True, MdpReady(b"echo"), [b"MDPW02", b"\x01", b"echo"]),
    (False, WorkerRequest(b"c", (b"q",)), [b"MDPW02", b"\x02", b"c", b"", b"q"]),
    (True, WorkerReply(b"c", (b"p",), False), [b"MDPW02", b"\x03", b"c", b"", b"p"]),
    (True, WorkerReply(b"c", (b"r",)), [b"MDPW02", b"\x04", b"c", b"", b"r"]),
    (True, MdpHeartbeat(), [b"MDPW02", b"\x05"]),
    (True, MdpDisconnect(), [b"MDPW02", b"\x06"]),
]


@pytest.mark.parametrize(("to_broker", "message", "frames"), TEXT)
def test_a_command_of_the_text_reads_and_writes_to_the_same_frames(
    to_broker: bool, message: Message, frames: list[bytes]
) -> None:
    assert decode(frames, to_broker) == message
    assert list(encode(message)) == frames


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"", b"MDPC02", b"\x01", b"echo", b"a"],
        [b"MDPC01", b"echo", b"a"],
        [b"MDPC02", b"\x03", b"echo", b"a"],
        [b"MDPC02", b"\x01", b"echo"],
        [b"", b"MDPC01", b"echo"],
        [b"MDPW02", b"\x01"],
        [b"MDPW02", b"\x04", b"c", b"not empty", b"r"],
        [b"MDPW02", b"\x04", b"c", b""],
        [b"", b"MDPW01", b"\x06"],
        [b"MDPW02", b""],
    ],
)
def test_a_message_that_is_none_is_malformed(frames: list[bytes]) -> None:
    with pytest.raises(MalformedMessage):
        decode(frames)


heads = st.sampled_from([[b"MDPC02"], [b"MDPW02"], [b"", b"MDPC01"], [b"", b"MDPW01"], []])
rest = st.lists(st.binary(max_size=4) | st.integers(1, 6).map(lambda n: bytes([n])), max_size=6)


@given(heads, rest, st.booleans())
def test_any_frames_are_a_message_or_malformed(
    head: list[bytes], tail: list[bytes], to_broker: bool
) -> None:
    try:
        message = decode([*head, *tail], to_broker)
    except MalformedMessage:
        return
    assert decode(encode(message), to_broker) == message
