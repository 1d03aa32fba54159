"""Bodies: packed form, size and digest."""

import contextlib
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.body import EMPTY, Body, pack, unpack

bodies = st.builds(
    Body,
    dialect=st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    parts=st.lists(st.binary(max_size=30), max_size=5).map(tuple),
)


@given(bodies)
def test_a_packed_body_unpacks_to_itself(body: Body) -> None:
    assert unpack(pack(body)) == body


@given(st.binary(max_size=60))
def test_any_bytes_are_a_body_or_a_value_error(blob: bytes) -> None:
    try:
        body = unpack(blob)
    except ValueError:
        return
    assert pack(body) == blob


@given(bodies, st.data())
def test_a_blob_that_was_cut_short_never_passes_for_the_whole(
    body: Body, data: st.DataObject
) -> None:
    blob = pack(body)
    short = blob[: data.draw(st.integers(0, len(blob) - 1))]
    with contextlib.suppress(ValueError):
        assert unpack(short) != body


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"", "empty"),
        (b"\x00\x00", "inside a length"),
        (b"\x00\x00\x00\x05nfp", "inside a part"),
        (b"\x00\x00\x00\x03nfp\xff\xff\xff\xff", "inside a part"),
        (b"\x00\x00\x00\x01\xff", "decode"),
    ],
)
def test_a_damaged_blob_says_what_is_wrong(blob: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        unpack(blob)


def test_the_size_counts_the_parts_only() -> None:
    assert Body("nfp", (b"four", b"", b"seven")).size == 9
    assert EMPTY.size == 0


@given(bodies, bodies)
def test_fingerprints_are_equal_exactly_when_dialect_and_parts_are(one: Body, other: Body) -> None:
    assert (one.digest() == other.digest()) == (one == other)


@pytest.mark.parametrize(
    "other",
    [
        Body("dcp", (b"ab", b"c")),
        Body("nfp", (b"a", b"bc")),
        Body("nfp", (b"ab", b"c", b"")),
        Body("nfp", (b"c", b"ab")),
    ],
)
def test_the_fingerprint_sees_dialect_order_and_borders_of_parts(other: Body) -> None:
    assert other.digest() != Body("nfp", (b"ab", b"c")).digest()


def test_the_fingerprint_of_known_content_never_changes() -> None:
    assert Body("nfp", (b"ab", b"c")).digest() == "dced11bf5a1e008c33b85a49d8fc4628"


def test_the_digest_of_a_large_body_is_that_of_its_packed_form() -> None:
    body = Body("nfp", (b"a" * 10, b"b" * 100_000))
    assert body.digest() == blake2b(pack(body), digest_size=16).hexdigest()
