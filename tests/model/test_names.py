"""Names: reversible text for opaque identities, and peer ids with their link."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.model.names import link_of, name_of, peer_id, raw_of, text_of


@given(st.binary(max_size=40))
@example(b"")
@example(b"0x")
@example(b"0x41")
@example(b"\x00\xff")
@example("ähnlich".encode())
def test_any_identity_has_a_printable_name_that_leads_back_to_it(raw: bytes) -> None:
    text = text_of(raw)
    assert text
    assert text.isprintable()
    assert raw_of(text) == raw


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_two_identities_never_share_a_name(one: bytes, other: bytes) -> None:
    assert (text_of(one) == text_of(other)) == (one == other)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"client-7", "client-7"),
        ("größe".encode(), "größe"),
        (b"", "0x"),
        (b"0x41", "0x30783431"),
        (b"\x00k\x8b", "0x006b8b"),
        (b"two\nlines", "0x74776f0a6c696e6573"),
    ],
)
def test_readable_identities_stay_readable_and_others_are_written_in_hex(
    raw: bytes, text: str
) -> None:
    assert text_of(raw) == text


def test_a_peer_knows_its_link_even_when_its_name_has_slashes() -> None:
    peer = peer_id("nfp", "site/rack/7")
    assert peer == "nfp/site/rack/7"
    assert link_of(peer) == "nfp"
    assert name_of(peer) == "site/rack/7"
