"""Identities and their bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.nfp.bodies import OpenBody
from dragoman.dialects.nfp.peers import Bounded, NfpWorker, Peers, read_name


@given(st.binary(min_size=1, max_size=12))
def test_every_identity_is_found_again_by_its_id(address: bytes) -> None:
    peers = Peers("nfp", 4)
    peer = peers.touch(address)
    assert peers.of(peer.id).address == address
    assert peer.name.isprintable()
    assert peer.has_text_name == (peer.name.encode() == address)


def test_an_unknown_peer_speaks_norfabs_variant() -> None:
    peers = Peers("nfp", 4)
    known = peers.touch(b"c1")
    known.is_binary = True
    assert peers.of(known.id) is known
    fresh = Peers("nfp", 4).of(known.id)
    assert (fresh.is_binary, fresh.address, fresh.takes_results) == (False, b"c1", False)


def test_no_more_peers_are_known_than_the_bound_allows() -> None:
    peers = Peers("nfp", 2)
    for address in (b"a", b"b", b"a", b"c"):
        peers.touch(address).is_binary = True
    assert len(peers) == 2
    assert [peers.touch(address).is_binary for address in (b"b", b"c")] == [True, True]
    assert not peers.touch(b"a").is_binary


def test_the_oldest_is_forgotten_beyond_the_bound() -> None:
    memory: Bounded[int, str] = Bounded(2)
    for key in (1, 2, 1, 3):
        memory.remember(key, "x")
    assert list(memory) == [2, 3]


def test_a_worker_is_named_by_its_identity() -> None:
    worker = NfpWorker(Peers("nfp", 4).touch("wörker".encode()), b"math", 5.0)
    assert (worker.name, worker.service) == ("wörker", "math")


@pytest.mark.parametrize("raw", [b"", b"\xff", b"a\tb", b"x" * 9])
def test_a_name_that_is_none_is_malformed_and_says_which(raw: bytes) -> None:
    with pytest.raises(MalformedMessage, match="service name"):
        read_name(raw, "service name", 8)


def test_a_name_may_be_any_printable_text() -> None:
    assert read_name("é 1".encode(), "job id", 8) == "é 1"


def test_the_variant_or_the_declaration_tells_a_synchronous_client() -> None:
    def told(is_binary: bool, push: bool | None) -> tuple[bool, bool]:
        peer = Peers("nfp", 2).touch(b"c1")
        peer.is_binary, peer.declared = is_binary, OpenBody(push=push)
        return peer.is_synchronous, peer.takes_results

    assert told(False, None) == (False, False)
    assert told(True, None) == (True, False)
    assert told(True, True) == (False, True)
    assert told(False, False) == (True, False)


def test_an_identity_that_zeromq_made_up_has_a_name_of_ours() -> None:
    peers = Peers("nfp", 2)
    assert peers.touch(b"\x00k\x8bEg").worker_name == "worker-006b8b4567"
    assert peers.touch(b"w1").worker_name == "w1"
