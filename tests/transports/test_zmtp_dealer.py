"""A DEALER's session without a socket: bytes in, messages and bytes out."""

import pytest

from dragoman.transports.zmtp_dealer import MISMATCH, REFUSED, DealerSession, dealer_properties
from dragoman.transports.zmtp_mechanism import BROKEN_OFF, ConnectionRejected
from dragoman.transports.zmtp_wire import (
    COMMAND,
    OPENING,
    ROUTER,
    command,
    error,
    frame,
    read_properties,
    rest_of_greeting,
)

GREETING = OPENING + rest_of_greeting(b"NULL", is_server=False)
READY = frame(COMMAND, command(b"READY", ROUTER))


def session() -> DealerSession:
    return DealerSession(None, b"me", max_frame=1000)


def opened() -> DealerSession:
    made = session()
    made.receive(GREETING + READY)
    assert made.is_open
    return made


@pytest.mark.parametrize("step", [1, 5, 64, 1000])
def test_bytes_may_be_cut_anywhere(step: int) -> None:
    made, found = session(), []
    data = GREETING + READY + b"\x01\x01a\x00\x01b" + frame(0, b"x" * 300)
    for at in range(0, len(data), step):
        found += made.receive(data[at : at + step])[0]
    assert found == [[b"a", b"b"], [b"x" * 300]]


def test_it_says_its_identity_after_the_greeting() -> None:
    made = session()
    assert made.greeting() == GREETING
    _, said = made.receive(GREETING)
    assert said == frame(COMMAND, command(b"READY", dealer_properties(b"me")))
    assert read_properties(dealer_properties(b"me")) == {
        b"socket-type": b"DEALER",
        b"identity": b"me",
        b"x-retries": b"1",
    }


def test_a_ping_is_answered() -> None:
    made = opened()
    ping = frame(COMMAND, command(b"PING", b"\x00\x0actx"))
    assert made.receive(ping) == ([], frame(COMMAND, command(b"PONG", b"ctx")))


def test_a_message_is_written_frame_by_frame() -> None:
    out: list[bytes] = []
    opened().encode([b"a", b"x" * 300], out)
    assert b"".join(out) == b"\x01\x01a" + frame(0, b"x" * 300)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"HTTP/1.1 400", "no ZeroMQ"),
        (OPENING + rest_of_greeting(b"CURVE", is_server=True), MISMATCH),
        (GREETING + frame(COMMAND, error(b"400")), REFUSED),
        (GREETING + frame(0, b"early"), BROKEN_OFF),
        (GREETING + READY + b"\x02" + (1001).to_bytes(8), "too large"),
        (GREETING + READY + frame(COMMAND, error(b"end")), BROKEN_OFF),
    ],
)
def test_what_ends_a_connection(data: bytes, reason: str) -> None:
    with pytest.raises(ConnectionRejected, match=reason):
        session().receive(data)
