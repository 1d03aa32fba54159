"""The messages of the replicated ledger and their bytes."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.ledger.base import LedgerDamaged
from dragoman.ledger.stream_codec import (
    FORMAT,
    Appended,
    CheckpointMoved,
    LedgerMessage,
    Retained,
    decode,
    encode,
)

MESSAGES: list[LedgerMessage] = [
    Appended(
        after=7,
        epoch=2,
        first=3,
        last=3,
        chain=99,
        link=b"l" * 16,
        rows=[(3, 1.5, "submitted", "", 2**62, b"m" * 16)],
        bodies=[(3, b"\0\xff")],
    ),
    CheckpointMoved(after=8, epoch=2, name="spark", seq=3),
    CheckpointMoved(after=9, epoch=2, name="spark", seq=None),
    Retained(after=10, epoch=3, first=4, chain=5, link=b"l" * 16, checkpoints={"spark": 3}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_comes_back_equal(message: LedgerMessage) -> None:
    assert decode(encode(message)) == message


def test_two_equal_checkpoints_are_different_messages() -> None:
    first = CheckpointMoved(after=8, epoch=2, name="spark", seq=3)
    again = CheckpointMoved(after=9, epoch=2, name="spark", seq=3)
    assert encode(first) != encode(again)


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    newer = msgspec.structs.replace(MESSAGES[1], format=FORMAT + 1)
    with pytest.raises(LedgerDamaged, match="upgrade this node"):
        decode(encode(newer))


@given(st.binary(max_size=50))
def test_no_other_error_comes_of_any_bytes(data: bytes) -> None:
    with suppress(LedgerDamaged):
        assert encode(decode(data))
