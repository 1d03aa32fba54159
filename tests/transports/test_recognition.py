"""Protocols are recognised by the first bytes of either end."""

import pytest
import zmq
from tests.transports.zmtp_peers import GREETING_NULL

from dragoman.transports.recognition import HTTP, NATS, NNG, TLS, ZEROMQ, recognise
from dragoman.transports.sp_connection import REPLIER, REQUESTER
from dragoman.transports.zmtp_wire import OPENING

FIRST = {
    "ZMTP 3 peer": (GREETING_NULL, ZEROMQ),
    "our ROUTER": (OPENING, ZEROMQ),
    "SP requester": (REQUESTER, NNG),
    "SP replier": (REPLIER, NNG),
    "NATS server": (b'INFO {"server_id":"x"}\r\n', NATS),
    "NATS client": (b'CONNECT {"verbose":false}\r\n', NATS),
    "HTTP server": (b"HTTP/1.1 400 Bad Request\r\n", HTTP),
    "HTTP client": (b"GET / HTTP/1.0\r\n", HTTP),
    "TLS alert": (b"\x15\x03\x03\x00\x02\x02\x16", TLS),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01", TLS),
    "SSH": (b"SSH-2.0-OpenSSH_9.2\r\n", ""),
    "nothing": (b"", ""),
}


@pytest.mark.parametrize(("data", "name"), FIRST.values(), ids=FIRST)
def test_first_bytes_name_the_protocol(data: bytes, name: str) -> None:
    assert recognise(data) == name


def test_libzmqs_own_greeting_is_recognised() -> None:
    with (
        zmq.Context() as context,
        context.socket(zmq.STREAM) as raw,
        context.socket(zmq.DEALER) as peer,
    ):
        port = raw.bind_to_random_port("tcp://127.0.0.1")
        peer.setsockopt(zmq.LINGER, 0)
        raw.setsockopt(zmq.RCVTIMEO, 5000)
        peer.connect(f"tcp://127.0.0.1:{port}")
        frames = [raw.recv_multipart()[1] for _ in range(2)]
    assert recognise(b"".join(frames)) == ZEROMQ
