"""CURVE, step by step: with a client that keeps to RFC 26, and with clients that do not."""

from collections.abc import Callable

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_box_keypair
from tests.transports.zmtp_peers import CurvePeer, introduction
from zmq.utils import z85

from dragoman.transports.zmtp_curve import Curve, CurveKeyPair
from dragoman.transports.zmtp_mechanism import ConnectionRejected
from dragoman.transports.zmtp_wire import COMMAND, MORE, ROUTER

SECRET = zmq.curve_keypair()[1]
OWN = CurveKeyPair(SECRET)
OTHER = CurveKeyPair(zmq.curve_keypair()[1])


def agreed(name: bytes = b"anna") -> tuple[Curve, CurvePeer]:
    """Run the whole handshake."""
    curve, peer = greeted()
    (ready,) = curve.receive(peer.initiate(name))
    assert peer.ready(ready) == ROUTER
    return curve, peer


def greeted(*own: CurveKeyPair, meant: CurveKeyPair = OWN) -> tuple[Curve, CurvePeer]:
    """Run HELLO and WELCOME."""
    curve, peer = Curve(own or [OWN], None), CurvePeer(meant.public)
    assert curve.begin() == []
    (welcome,) = curve.receive(peer.hello())
    peer.welcome(welcome)
    return curve, peer


def test_a_broker_knows_its_public_key() -> None:
    public, secret = zmq.curve_keypair()
    assert CurveKeyPair(secret).public == z85.decode(public)


def test_a_handshake_proves_the_key_and_gives_the_identity() -> None:
    curve, peer = agreed()
    assert curve.key == f"curve:{z85.encode(peer.public).decode()}"
    assert curve.properties == {b"socket-type": b"DEALER", b"identity": b"anna"}


def test_frames_and_their_flags_come_out_as_they_went_in() -> None:
    curve, peer = agreed()
    assert curve.unseal is not None
    assert curve.seal is not None
    assert curve.unseal(peer.seal(b"hello", 1)) == (MORE, b"hello")
    assert curve.unseal(peer.seal(b"", 0)) == (0, b"")
    assert curve.unseal(peer.seal(b"\x04PING", 2)) == (COMMAND, b"\x04PING")
    assert peer.unseal(curve.seal(MORE, b"there")) == (1, b"there")
    assert peer.unseal(curve.seal(0, b"")) == (0, b"")
    assert peer.unseal(curve.seal(COMMAND, b"\x04PONG")) == (2, b"\x04PONG")


def test_two_connections_of_one_key_share_no_secret() -> None:
    _, peer = agreed()
    other, second = agreed()
    second.shared, second.number = peer.shared, peer.number
    assert other.unseal is not None
    with pytest.raises(ConnectionRejected, match="forged"):
        other.unseal(second.seal(b"hello"))


def test_repeated_and_reordered_frames_are_refused() -> None:
    curve, peer = agreed()
    assert curve.unseal is not None
    first, second = peer.seal(b"one"), peer.seal(b"two")
    assert curve.unseal(second) == (0, b"two")
    for again in (second, first):
        with pytest.raises(ConnectionRejected, match="forged or repeated"):
            curve.unseal(again)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body[:-1] + bytes([body[-1] ^ 1]),
        lambda body: body[:12] + bytes([body[12] ^ 1]) + body[13:],
        lambda body: body[:32],
        lambda body: b"",
        lambda body: b"\x07MASSAGE" + body[8:],
    ],
    ids=["box", "number", "short", "empty", "name"],
)
def test_a_modified_frame_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    curve, peer = agreed()
    assert curve.unseal is not None
    with pytest.raises(ConnectionRejected, match="forged"):
        curve.unseal(spoil(peer.seal(b"hello")))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda hello: hello[:-1] + bytes([hello[-1] ^ 1]),
        lambda hello: hello[:-1],
        lambda hello: hello[:6] + b"\x02" + hello[7:],
        lambda hello: hello[:80] + bytes(32) + hello[112:],
        lambda hello: hello[:40] + b"\x01" + hello[41:],
    ],
    ids=["box", "short", "version", "no point", "padding"],
)
def test_a_hello_that_is_none_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ConnectionRejected, match="no CURVE, or another broker's key"):
        Curve([OWN], None).receive(spoil(CurvePeer(OWN.public).hello()))


def test_a_hello_whose_box_is_not_of_zeros_is_refused() -> None:
    peer = CurvePeer(OWN.public)
    with pytest.raises(ConnectionRejected, match="no CURVE, or another broker's key"):
        Curve([OWN], None).receive(peer.hello(bytes(63) + b"\x01"))


def test_who_knows_another_brokers_key_is_refused() -> None:
    stranger = CurvePeer(crypto_box_keypair()[0])
    with pytest.raises(ConnectionRejected, match="another broker's key"):
        Curve([OWN], None).receive(stranger.hello())


@pytest.mark.parametrize("meant", [OWN, OTHER], ids=["the first", "the second"])
def test_a_peer_may_know_any_key_of_the_broker(meant: CurveKeyPair) -> None:
    curve, peer = greeted(OWN, OTHER, meant=meant)
    (ready,) = curve.receive(peer.initiate(b"anna"))
    assert peer.ready(ready) == ROUTER
    assert curve.seal is not None
    assert peer.unseal(curve.seal(0, b"there")) == (0, b"there")


def test_who_began_with_one_key_of_the_broker_cannot_vouch_for_another() -> None:
    curve, peer = greeted(OWN, OTHER)
    peer.server = OTHER.public
    with pytest.raises(ConnectionRejected, match="another broker's key"):
        curve.receive(peer.initiate(b"anna"))


def test_a_cookie_of_another_connection_is_refused() -> None:
    curve, peer = greeted()
    peer.cookie = greeted()[1].cookie
    with pytest.raises(ConnectionRejected):
        curve.receive(peer.initiate(b"anna"))


def test_who_does_not_hold_the_secret_of_the_key_it_shows_is_refused() -> None:
    curve, thief = greeted()
    victim = CurvePeer(OWN.public)
    thief.public = victim.public
    with pytest.raises(ConnectionRejected):
        curve.receive(thief.initiate(b"anna"))
    assert curve.key == ""


def test_a_vouch_for_another_connection_is_refused() -> None:
    curve, thief = greeted()
    _, victim = greeted()
    victim.their_now = thief.their_now
    stolen = victim.vouch()
    thief.public = victim.public
    with pytest.raises(ConnectionRejected):
        curve.receive(thief.initiate(b"anna", stolen))


def test_a_key_that_is_not_admitted_gets_an_error() -> None:
    asked: list[str] = []

    def admits(key: str) -> bool:
        asked.append(key)
        return False

    curve, peer = Curve([OWN], admits), CurvePeer(OWN.public)
    peer.welcome(curve.receive(peer.hello())[0])
    with pytest.raises(ConnectionRejected, match="key refused") as refused:
        curve.receive(peer.initiate(b"anna"))
    assert refused.value.answer == b"\x05ERROR\x03400"
    assert asked == [f"curve:{z85.encode(peer.public).decode()}"]
    assert (curve.key, curve.properties, curve.unseal) == ("", None, None)


def test_properties_that_cannot_be_read_end_it() -> None:
    curve, peer = greeted()
    with pytest.raises(ConnectionRejected, match="broken off"):
        curve.receive(peer.initiate(b"", metadata=introduction(b"anna")[:-1]))


@given(st.sampled_from([b"HELLO", b"INITIATE", b"MESSAGE", b"ERROR", b""]), st.binary(max_size=400))
def test_any_malformed_handshake_is_refused_and_nothing_else_happens(
    name: bytes, data: bytes
) -> None:
    for curve in (Curve([OWN], None), greeted()[0]):
        with pytest.raises(ConnectionRejected):
            curve.receive(bytes([len(name)]) + name + data)
        assert (curve.key, curve.properties, curve.seal) == ("", None, None)


def test_every_command_has_its_turn() -> None:
    with pytest.raises(ConnectionRejected, match="broken off"):
        Curve([OWN], None).receive(b"\x08INITIATE" + bytes(300))
    curve, peer = greeted()
    with pytest.raises(ConnectionRejected, match="broken off"):
        curve.receive(peer.hello())
    curve, peer = agreed()
    with pytest.raises(ConnectionRejected, match="broken off"):
        curve.receive(peer.initiate(b"anna"))
