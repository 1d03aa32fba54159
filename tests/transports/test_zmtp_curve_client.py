"""The client's end of CURVE against our server's end; libzmq's is in `test_dealer`."""

import pytest
import zmq

from dragoman.transports.zmtp_curve import Curve, CurveKeyPair
from dragoman.transports.zmtp_curve_client import WRONG_KEY, CurveClient
from dragoman.transports.zmtp_dealer import dealer_properties
from dragoman.transports.zmtp_mechanism import BROKEN_OFF, ConnectionRejected
from dragoman.transports.zmtp_wire import MORE, command

SERVER, OWN = zmq.curve_keypair(), zmq.curve_keypair()


def pair() -> tuple[CurveClient, Curve]:
    """Make both ends after a handshake."""
    client = CurveClient(*OWN, SERVER[0], dealer_properties(b"me"))
    server = Curve([CurveKeyPair(SERVER[1])], None)
    (hello,) = client.begin()
    (welcome,) = server.receive(hello)
    (initiate,) = client.receive(welcome)
    (ready,) = server.receive(initiate)
    assert client.receive(ready) == []
    return client, server


def test_the_server_learns_key_and_identity() -> None:
    client, server = pair()
    assert server.key == f"curve:{OWN[0].decode()}"
    assert server.properties is not None
    assert server.properties[b"identity"] == b"me"
    assert client.properties == {b"socket-type": b"ROUTER", b"identity": b""}


def test_frames_are_sealed_both_ways_and_used_once() -> None:
    client, server = pair()
    assert client.seal is not None
    assert client.unseal is not None
    assert server.seal is not None
    assert server.unseal is not None
    assert server.unseal(client.seal(MORE, b"x" * 700)) == (MORE, b"x" * 700)
    box = server.seal(0, b"answer")
    assert client.unseal(box) == (0, b"answer")
    for bad in (box, box[:20], server.seal(0, b"forged")[:-1] + b"?"):
        with pytest.raises(ConnectionRejected, match=BROKEN_OFF):
            client.unseal(bad)


def test_a_welcome_of_another_key_is_rejected() -> None:
    client = CurveClient(*OWN, SERVER[0], b"")
    client.begin()
    with pytest.raises(ConnectionRejected, match=WRONG_KEY):
        client.receive(command(b"WELCOME", bytes(160)))
    with pytest.raises(ConnectionRejected, match=BROKEN_OFF):
        client.receive(command(b"READY", b""))


def test_a_welcome_of_a_wrong_length_is_rejected() -> None:
    client = CurveClient(*OWN, SERVER[0], b"")
    client.begin()
    with pytest.raises(ConnectionRejected, match=BROKEN_OFF):
        client.receive(command(b"WELCOME", b"short"))


def test_a_key_that_no_broker_can_have_is_rejected() -> None:
    client = CurveClient(*OWN, b"0" * 40, b"")
    with pytest.raises(ConnectionRejected, match=WRONG_KEY):
        client.begin()
