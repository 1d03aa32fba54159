"""Why a broker does not answer: each cause is named."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dragoman.sdk.diagnosis import diagnose, find_obstacle, other_owner
from dragoman.sdk.url import parse_url
from dragoman.testing.harness import LocalBroker


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(first: bytes, answer: bytes = b"") -> Iterator[int]:
    """Listen, send first bytes to everybody, and answer what they send."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(first)
                        if connection.recv(64):
                            connection.sendall(answer)
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_nothing_listens() -> None:
    port = unused_port()
    text = diagnose(parse_url(f"nfp://127.0.0.1:{port}"))
    assert text == (
        f"nothing listens at 127.0.0.1:{port} (connection refused); is `dragoman up` running there?"
    )


def test_an_unknown_host_is_named() -> None:
    assert "'no-such-host.invalid' is unknown" in diagnose(parse_url("nfp://no-such-host.invalid"))


@pytest.mark.parametrize(
    ("url", "first", "answer", "words"),
    [
        ("nfp", b"INFO {}\r\n", b"", "speaks NATS, but nfp:// needs ZeroMQ"),
        ("memo", b"\xff" + bytes(8) + b"\x7f\x03", b"", "speaks ZeroMQ, but memo:// needs NNG"),
        ("zss", b"", b"HTTP/1.1 400 Bad", "speaks HTTP, but zss:// needs ZeroMQ"),
        ("http", b"", b"\x15\x03\x03\0\x02", "uses TLS"),
        ("dcp", b"SSH-2.0-x\r\n", b"", "the usual port of dcp is 5566"),
    ],
)
def test_another_protocol_is_named(url: str, first: bytes, answer: bytes, words: str) -> None:
    with server(first, answer) as port:
        assert words in diagnose(parse_url(f"{url}://127.0.0.1:{port}"))


def test_every_address_is_named_when_none_answers() -> None:
    ports = [unused_port(), unused_port()]
    text = find_obstacle(parse_url(f"nfp://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"))
    assert all(f"nothing listens at 127.0.0.1:{port}" in text for port in ports)


def test_a_usual_port_of_another_dialect_is_found_among_several_addresses() -> None:
    assert other_owner(parse_url("nfp://a:5555,b:5555,c:5555")) == ""
    assert other_owner(parse_url("nfp://a:5555,b:5566")).startswith("5566 is the usual port of")


def test_one_good_address_is_enough() -> None:
    with server(b"\xff" + bytes(8) + b"\x7f\x03") as port:
        url = f"nfp://127.0.0.1:{unused_port()},127.0.0.1:{port}"
        assert find_obstacle(parse_url(url)) == ""


@pytest.mark.process
def test_the_listeners_of_a_real_broker_are_told_apart() -> None:
    with LocalBroker("nfp", "memo", "http") as broker:
        places = {name: broker.url(name).partition("://")[2] for name in ("nfp", "memo", "http")}
        assert "speaks ZeroMQ" in diagnose(parse_url(f"memo://{places['nfp']}"))
        assert "speaks NNG" in diagnose(parse_url(f"nfp://{places['memo']}"))
        assert "speaks HTTP" in diagnose(parse_url(f"nfp://{places['http']}"))
