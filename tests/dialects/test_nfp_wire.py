"""The frames of NFP: captured vectors both ways, round trips, and arbitrary input."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.nfp import wire

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors/nfp/norfab-0.25.0.json").read_text()
)
#: NorFab's broker answers an unknown command with too few frames for its own clients.
TOO_SHORT = {"reject-single-byte-post/02 RESPONSE", "reject-unknown-command/02 RESPONSE"}


def frames_of(vector: dict[str, Any]) -> tuple[bytes, ...]:
    """Return the frames without the identity that the ROUTER put before them."""
    return tuple(bytes.fromhex(frame) for frame in vector["frames"][1:])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["name"]))
def test_a_captured_message_reads_and_writes_back_to_the_same_bytes(vector: dict[str, Any]) -> None:
    frames = frames_of(vector)
    if vector["name"] in TOO_SHORT:
        with pytest.raises(MalformedMessage):
            wire.decode(frames)
        return
    message = wire.decode(frames)
    assert wire.encode(message) == frames
    assert type(message) in SHAPES[vector["direction"]]


SHAPES: dict[str, set[type]] = {
    "client>broker": {wire.NfpRequest, wire.UnknownCommand},
    "broker>client": {wire.NfpReply},
    "broker>worker": {wire.NfpTask, wire.KeepAlive, wire.NfpDisconnect},
    "worker>broker": {wire.NfpReady, wire.KeepAlive, wire.NfpDisconnect, wire.NfpReport},
}


def test_every_direction_has_vectors() -> None:
    assert {v["direction"] for v in VECTORS} == set(SHAPES)


frame = st.binary(max_size=12)
flag = st.booleans()
more = st.lists(frame, max_size=3).map(tuple)
some = st.binary(min_size=1, max_size=4)
messages = st.one_of(
    st.builds(wire.Open, st.sampled_from([wire.CLIENT, wire.WORKER, wire.BROKER]), frame, flag),
    st.builds(wire.NfpReady, frame, flag),
    st.builds(wire.KeepAlive, st.sampled_from([wire.WORKER, wire.BROKER]), frame, flag),
    st.builds(
        wire.NfpDisconnect,
        st.sampled_from([wire.WORKER, wire.BROKER]),
        frame,
        st.none() | frame,
        flag,
    ),
    st.builds(
        wire.NfpRequest,
        st.sampled_from([wire.POST, wire.GET, wire.DELETE, wire.PUT, wire.MMI]),
        *[frame] * 4,
        flag,
        more,
    ),
    st.builds(wire.UnknownCommand, st.binary(min_size=5, max_size=9), *[frame] * 4),
    st.builds(
        wire.NfpTask,
        st.sampled_from([wire.POST, wire.GET, wire.DELETE, wire.PUT]),
        *[frame] * 3,
        flag,
        more,
    ),
    st.builds(
        wire.NfpReport,
        st.sampled_from([wire.RESPONSE, wire.EVENT, wire.STREAM]),
        *[frame] * 4,
        flag,
        more,
    ),
    st.builds(
        wire.NfpReport,
        st.just(wire.RESPONSE),
        st.none(),
        st.binary(min_size=1),
        *[frame] * 2,
        flag,
        more,
        service=frame,
    ),
    st.builds(
        wire.NfpReply,
        st.sampled_from([wire.RESPONSE, wire.EVENT, wire.STREAM, wire.MMI]),
        *[frame] * 4,
        flag,
        more,
    ),
)


@given(messages)
def test_what_was_written_reads_back(message: wire.Message) -> None:
    assert wire.decode(wire.encode(message)) == message


headers = st.sampled_from([wire.CLIENT, wire.WORKER, wire.BROKER]) | frame
commands = st.sampled_from([f"0x{n:02}".encode() for n in range(12)]) | st.binary(max_size=1)


@given(st.tuples(st.just(b"") | frame, headers, commands), st.lists(frame, max_size=8))
def test_any_frames_are_a_message_or_malformed(
    head: tuple[bytes, bytes, bytes], tail: list[bytes]
) -> None:
    try:
        message = wire.decode([*head, *tail])
    except MalformedMessage:
        return
    again = wire.encode(message)
    assert again == tuple([*head, *tail][: len(again)]) or type(message) in LENIENT


#: OPEN may lack its body, and an unused frame may hold anything.
LENIENT = {wire.Open, wire.NfpTask, wire.NfpReport}


@given(st.lists(frame, max_size=9))
def test_arbitrary_bytes_raise_nothing_but_malformed(frames: list[bytes]) -> None:
    with suppress(MalformedMessage):
        wire.decode(frames)


@pytest.mark.parametrize("command", [wire.POST, wire.PUT, wire.MMI])
def test_one_byte_commands_are_the_number_that_norfab_spells(command: str) -> None:
    ascii_frames = wire.encode(wire.NfpRequest(command, b"s", b"any", b"u", b"{}"))
    binary = wire.encode(wire.NfpRequest(command, b"s", b"any", b"u", b"{}", is_binary=True))
    assert binary[2] == bytes([int(ascii_frames[2], 16)])


def test_a_whole_request_with_an_unknown_command_can_still_be_answered() -> None:
    message = wire.decode([b"", wire.CLIENT, b"0x99", b"s", b"all", b"u1", b"{}"])
    assert message == wire.UnknownCommand(b"0x99", b"s", b"all", b"u1", b"{}")


def test_a_short_report_is_read_as_the_table_of_the_text_has_it() -> None:
    message = wire.decode([b"", wire.WORKER, b"\x05", b"math", b"u1", b"200", b"{}"])
    assert message == wire.NfpReport(
        wire.RESPONSE, None, b"u1", b"200", b"{}", is_binary=True, service=b"math"
    )


@pytest.mark.parametrize("long", [True, False])
@pytest.mark.parametrize("content", [[], [b"a"], [b"a", b"", b"c"]])
def test_a_report_has_any_number_of_content_frames(long: bool, content: list[bytes]) -> None:
    head = [b"c1", b"", b"u1"] if long else [b"math", b"u1"]
    message = wire.decode([b"", wire.WORKER, b"\x05", *head, b"500", *content])
    assert isinstance(message, wire.NfpReport)
    assert (message.uuid, message.status) == (b"u1", b"500")
    assert (message.body, *message.more) == tuple(content or [b""])


def test_a_worker_may_not_send_a_request() -> None:
    with pytest.raises(MalformedMessage, match="does not follow"):
        wire.decode([b"", wire.WORKER, b"0x04", b"s", b"all", b"u", b"{}"])
