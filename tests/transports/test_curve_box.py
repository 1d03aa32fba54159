"""Boxes of one key: equal to those of PyNaCl's public functions; other keys do not open them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_box_easy_afternm, crypto_box_open_easy_afternm
from nacl.exceptions import CryptoError

from dragoman.transports.curve_box import (
    MAC_BYTES,
    NONCE_BYTES,
    CurveBox,
    FastCurveBox,
    PublicCurveBox,
)

SHARED = bytes(range(32))
NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)
#: From nothing to more than the kept buffer.
both = pytest.mark.parametrize("kind", [FastCurveBox, PublicCurveBox])
TEXTS = st.one_of(st.binary(max_size=64), st.binary(min_size=400, max_size=1200))


@both
@given(TEXTS, NONCES)
def test_they_are_the_boxes_of_libsodium(
    kind: type[PublicCurveBox], plain: bytes, nonce: bytes
) -> None:
    boxes = kind(SHARED)
    box = boxes.close(plain, nonce)
    assert box == crypto_box_easy_afternm(plain, nonce, SHARED)
    assert boxes.open(box, nonce) == plain == crypto_box_open_easy_afternm(box, nonce, SHARED)


@both
@given(TEXTS, NONCES, st.data())
def test_a_modified_box_does_not_open(
    kind: type[PublicCurveBox], plain: bytes, nonce: bytes, data: st.DataObject
) -> None:
    boxes = kind(SHARED)
    box = bytearray(boxes.close(plain, nonce))
    box[data.draw(st.integers(0, len(box) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CryptoError):
        boxes.open(bytes(box), nonce)


@both
def test_a_box_of_another_key_or_nonce_does_not_open(kind: type[PublicCurveBox]) -> None:
    box = kind(SHARED).close(b"hello", bytes(NONCE_BYTES))
    with pytest.raises(CryptoError):
        kind(bytes(32)).open(box, bytes(NONCE_BYTES))
    with pytest.raises(CryptoError):
        kind(SHARED).open(box, bytes(NONCE_BYTES - 1) + b"\1")


@both
@pytest.mark.parametrize("size", [0, 1, MAC_BYTES - 1])
def test_a_box_that_is_too_short_does_not_open(kind: type[PublicCurveBox], size: int) -> None:
    with pytest.raises(CryptoError):
        kind(SHARED).open(bytes(size), bytes(NONCE_BYTES))


@both
@pytest.mark.parametrize("size", [0, 8, NONCE_BYTES - 1, NONCE_BYTES + 1])
def test_a_nonce_of_another_length_reaches_no_memory(kind: type[PublicCurveBox], size: int) -> None:
    boxes = kind(SHARED)
    with pytest.raises(CryptoError):
        boxes.open(boxes.close(b"hello", bytes(NONCE_BYTES)), bytes(size))
    with pytest.raises((AssertionError, CryptoError, ValueError)):
        boxes.close(b"hello", bytes(size))


@both
def test_a_reused_buffer_leaks_nothing_into_a_later_box(kind: type[PublicCurveBox]) -> None:
    boxes = kind(SHARED)
    boxes.close(b"x" * 300, bytes(NONCE_BYTES))
    assert len(boxes.close(b"y", bytes(NONCE_BYTES))) == 1 + MAC_BYTES
    assert boxes.open(boxes.close(b"y", bytes(NONCE_BYTES)), bytes(NONCE_BYTES)) == b"y"


def test_the_fast_one_is_used_where_pynacl_has_its_functions() -> None:
    assert CurveBox is FastCurveBox
