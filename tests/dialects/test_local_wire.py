"""The local dialect's messages, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.local import wire

MESSAGES = [
    wire.LocalJoin(("a", "b"), 5),
    wire.LocalWork("j", 2, "nfp/c", b"body"),
    wire.LocalCancel("j"),
    wire.LocalInput("j", b"said"),
    wire.LocalReply("j", 2, "final", b""),
    wire.LocalLeave(),
    wire.LocalJobEnded("j", b"body", "task_failed", "why"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_every_message_reads_back_as_it_was_written(message: wire.Message) -> None:
    assert wire.decode(wire.encode(message)) == message


@given(st.lists(st.binary(max_size=8), max_size=6))
def test_any_frames_are_a_message_or_malformed(frames: list[bytes]) -> None:
    try:
        message = wire.decode(frames)
    except MalformedMessage:
        return
    assert type(message) in {type(m) for m in MESSAGES}
