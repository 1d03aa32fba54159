"""Boxes of one key: equal to those of PyNaCl's public functions; other keys do not open them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_box_easy_afternm, crypto_box_open_easy_afternm
from nacl.exceptions import CryptoError

from dragoman.transports.curve_box import MAC_BYTES, NONCE_BYTES, CurveBox

SHARED = bytes(range(32))
NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)
#: From nothing to more than the room that is kept.
TEXTS = st.one_of(st.binary(max_size=64), st.binary(min_size=400, max_size=1200))


@given(TEXTS, NONCES)
def test_they_are_the_boxes_of_libsodium(plain: bytes, nonce: bytes) -> None:
    boxes = CurveBox(SHARED)
    box = boxes.close(plain, nonce)
    assert box == crypto_box_easy_afternm(plain, nonce, SHARED)
    assert boxes.open(box, nonce) == plain == crypto_box_open_easy_afternm(box, nonce, SHARED)


@given(TEXTS, NONCES, st.data())
def test_a_box_that_was_touched_does_not_open(
    plain: bytes, nonce: bytes, data: st.DataObject
) -> None:
    boxes = CurveBox(SHARED)
    box = bytearray(boxes.close(plain, nonce))
    box[data.draw(st.integers(0, len(box) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CryptoError):
        boxes.open(bytes(box), nonce)


def test_a_box_of_another_key_or_nonce_does_not_open() -> None:
    box = CurveBox(SHARED).close(b"hello", bytes(NONCE_BYTES))
    with pytest.raises(CryptoError):
        CurveBox(bytes(32)).open(box, bytes(NONCE_BYTES))
    with pytest.raises(CryptoError):
        CurveBox(SHARED).open(box, bytes(NONCE_BYTES - 1) + b"\1")


@pytest.mark.parametrize("size", [0, 1, MAC_BYTES - 1])
def test_what_is_too_short_for_a_box_is_none(size: int) -> None:
    with pytest.raises(CryptoError):
        CurveBox(SHARED).open(bytes(size), bytes(NONCE_BYTES))


@pytest.mark.parametrize("size", [0, 8, NONCE_BYTES - 1, NONCE_BYTES + 1])
def test_a_nonce_of_another_length_reaches_no_memory(size: int) -> None:
    boxes = CurveBox(SHARED)
    with pytest.raises(CryptoError):
        boxes.open(boxes.close(b"hello", bytes(NONCE_BYTES)), bytes(size))
    with pytest.raises(AssertionError):
        boxes.close(b"hello", bytes(size))


def test_what_was_in_the_room_before_is_in_no_later_box() -> None:
    boxes = CurveBox(SHARED)
    boxes.close(b"x" * 300, bytes(NONCE_BYTES))
    assert len(boxes.close(b"y", bytes(NONCE_BYTES))) == 1 + MAC_BYTES
    assert boxes.open(boxes.close(b"y", bytes(NONCE_BYTES)), bytes(NONCE_BYTES)) == b"y"
