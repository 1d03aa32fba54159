"""The old MessagePack: what its peers can read, and what they send."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.zss.oldpack import decode, encode
from dragoman.model.content import Unmappable

plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=70)
    | st.binary(max_size=70)
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(values)
def test_any_value_comes_back_as_it_went(value: object) -> None:
    assert decode(encode(value)) == value


@given(values.filter(lambda v: b"\xd8" not in encode(v) and b"\xd9" not in encode(v)))
def test_without_bytes_it_is_what_every_old_packer_writes(value: object) -> None:
    assert msgpack.unpackb(encode(value), strict_map_key=False) == value


@pytest.mark.parametrize("size", [31, 32, 200, 255, 256, 65_535, 65_536, 70_000])
def test_no_text_is_ever_written_as_str8(size: int) -> None:
    packed = encode("x" * size)
    assert packed == msgpack.packb("x" * size, use_bin_type=False)
    assert packed[0] != 0xD9


def test_bytes_are_the_buffers_of_javascript() -> None:
    assert encode(b"\x00\xff\x10") == bytes.fromhex("d8000300ff10")
    large = encode(b"z" * 70_000)
    assert large[:5] == b"\xd9" + (70_000).to_bytes(4)
    assert decode(large) == b"z" * 70_000


def test_integers_beyond_32_bits_are_floats() -> None:
    assert encode(2**31 - 1)[0] == 0xCE
    for value in (2**31, 4_294_967_295, 1_795_000_000_000, -(2**40), 2**53):
        assert encode(value)[0] == 0xCB
        assert decode(encode(value)) == value


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**60, 2**100, -(2**64), 10**400, object(), {1, 2}, "\ud800"]
)
def test_what_it_cannot_hold_exactly_is_unmappable(value: object) -> None:
    with pytest.raises(Unmappable, match="ZSS"):
        encode([value])


def test_what_is_nested_too_deeply_is_refused_both_ways() -> None:
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(Unmappable, match="deeper"):
        encode(deep)
    packed = b"\x91" * 2000 + b"\xc0"
    with pytest.raises(ValueError, match="not MessagePack"):
        decode(packed)


def test_undefined_is_one_byte_and_nothing() -> None:
    assert decode(b"\xc4") is None
    assert decode(b"\x92\xc4\x01") == [None, 1]


def test_a_modern_peer_is_understood_where_the_old_meaning_makes_no_sense() -> None:
    for value in (["y" * 40], {"k": b"bytes"}, "y" * 200):
        assert decode(msgpack.packb(value)) == value


def test_64_bit_integers_are_read_although_never_written() -> None:
    assert decode(b"\xcf" + (2**40).to_bytes(8)) == 2**40
    assert decode(b"\xd3" + (-5).to_bytes(8, signed=True)) == -5


def test_raw_that_is_no_text_is_bytes() -> None:
    assert decode(b"\xa2\xff\xfe") == b"\xff\xfe"


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\xa5ab", b"\x01\x02", b"\xda\x00", b"\xde\xff\xff"]
)
def test_what_is_no_value_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not MessagePack"):
        decode(data)


def test_an_extension_type_is_refused() -> None:
    with pytest.raises(ValueError, match="extension"):
        decode(msgpack.packb({"a": [msgpack.ExtType(1, b"abcd")]}))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    try:
        decode(data)
    except ValueError:
        return
