"""The connection to the servers: errors are built-in ones, and nothing hangs."""

import errno
import threading

import pytest
from tests.nats_trio import free_ports
from tests.transports.jetstream_servers import connection as connection
from tests.transports.jetstream_servers import servers as servers

from dragoman.transports import jetstream_connection as module
from dragoman.transports.jetstream_connection import (
    JetStreamConnection,
    JetStreamRefusal,
    parse_headers,
)


def test_a_refusal_because_of_the_place_is_an_answer() -> None:
    JetStreamRefusal(
        {"code": 400, "err_code": 10071, "description": "wrong last sequence: 5"}
    ).require_taken()


def test_a_full_stream_is_an_error_of_space() -> None:
    with pytest.raises(OSError, match="maximum bytes exceeded") as found:
        JetStreamRefusal(
            {"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}
        ).require_taken()
    assert found.value.errno == errno.ENOSPC


@pytest.mark.parametrize("reason", [10158, 10008, 0])
def test_any_other_refusal_leaves_the_outcome_unknown(reason: int) -> None:
    with pytest.raises(TimeoutError):
        JetStreamRefusal({"code": 503, "err_code": reason}).require_taken()


def test_headers_of_a_stored_message_are_parsed() -> None:
    raw = b"NATS/1.0\r\nDragoman-Id: ab\r\nDragoman-Piece: 1/2\r\n\r\n"
    assert parse_headers(raw) == {"Dragoman-Id": "ab", "Dragoman-Piece": "1/2"}
    assert parse_headers(b"") == {}


@pytest.mark.process
def test_no_server_is_a_connection_error_with_the_address() -> None:
    [port] = free_ports(1)
    with pytest.raises(ConnectionError, match=str(port)):
        JetStreamConnection([f"nats://127.0.0.1:{port}"], patience=0.3)
    assert not [t for t in threading.enumerate() if t.name == "jetstream" and t.is_alive()]


@pytest.mark.interop
def test_an_unknown_stream_is_refused(connection: JetStreamConnection) -> None:
    connection.create({"name": "KNOWN", "subjects": ["known"]})  # waits for the servers
    with pytest.raises(JetStreamRefusal, match="stream not found"):
        connection.run(connection.ask("STREAM.INFO.NOBODY", {}), 5.0)


@pytest.mark.interop
def test_a_closed_connection_says_so(connection: JetStreamConnection) -> None:
    opened = JetStreamConnection([connection.client.connected_url.geturl()])  # type: ignore[union-attr]
    opened.close()
    opened.close()
    with pytest.raises(ConnectionError, match="closed"):
        opened.run(opened.ask("INFO", {}), 1.0)


@pytest.mark.interop
def test_a_stream_that_cannot_be_created_says_what_the_servers_answer(
    connection: JetStreamConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.create({"name": "FIRST", "subjects": ["first"]})  # waits for the servers
    monkeypatch.setattr(module, "PATIENCE", 2.0)
    with pytest.raises(TimeoutError, match="the stream SECOND cannot be created: subjects overlap"):
        connection.create({"name": "SECOND", "subjects": ["first"]})
