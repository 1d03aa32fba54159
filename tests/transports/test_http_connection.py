"""One HTTP connection: requests after each other, answers that break off, streams of events."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import h11
import pytest

from dragoman.transports.http_connection import HttpConnection, SseReader

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def with_server(answers: list[bytes], talk: Callable[[HttpConnection], Awaitable[None]]) -> bytes:
    """Run a talk with a server that gives these answers, then ends; return what it was sent."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            received.extend(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
        writer.close()

    async def act() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            streams = await asyncio.open_connection("127.0.0.1", port)
            connection = HttpConnection(*streams, f"http://user@broker.test:{port}/v1")
            try:
                await talk(connection)
            finally:
                connection.close()

    asyncio.run(act())
    return bytes(received)


async def ask(connection: HttpConnection, method: bytes = b"GET") -> tuple[int, bytes]:
    status = await connection.ask(method, b"/x", [(b"x-name", b"text")], b"")
    return status, b"".join([piece async for piece in connection.body()])


def test_a_connection_carries_one_request_after_the_other() -> None:
    async def talk(connection: HttpConnection) -> None:
        assert await ask(connection) == (200, b"ok")
        assert connection.is_reusable()
        assert connection.is_used
        assert await ask(connection, b"POST") == (200, b"ok")

    first, second, _ = with_server([ANSWER, ANSWER], talk).split(b"\r\n\r\n")
    assert first.startswith(b"GET /x HTTP/1.1\r\nhost: broker.test:")
    assert b"user" not in first
    assert b"x-name: text" in first
    assert b"content-length" not in first
    assert b"content-length: 0" in second


def test_a_connection_whose_answer_was_not_read_is_not_used_again() -> None:
    async def talk(connection: HttpConnection) -> None:
        await connection.ask(b"GET", b"/x", [], b"")
        assert not connection.is_reusable()

    with_server([ANSWER], talk)


@pytest.mark.parametrize("sent", [ANSWER[:-1], ANSWER[:20], b""])
def test_an_answer_that_breaks_off_is_the_end_of_the_connection(sent: bytes) -> None:
    async def talk(connection: HttpConnection) -> None:
        with pytest.raises(EOFError, match="in the middle of an answer"):
            await ask(connection)

    with_server([sent], talk)


def test_another_protocol_is_recognised() -> None:
    async def talk(connection: HttpConnection) -> None:
        with pytest.raises(h11.RemoteProtocolError, match=r"the port speaks .*, not HTTP"):
            await ask(connection)

    with_server([b'INFO {"server_id":"x"}\r\n\r\n'], talk)


def test_events_are_read_in_whatever_pieces_they_come() -> None:
    text = b": open\n\nid: 7\nevent: a\ndata: {}\n\n: alive\n\ndata: 1\n\n"
    for size in (1, 3, len(text)):
        events = SseReader([])
        found = []
        for at in range(0, len(text), size):
            found += events.feed(text[at : at + size])
        assert found == [(b"a", b"{}"), (b"", b"1")]
        assert (b"last-event-id", b"7") in events.headers()


def test_a_large_event_costs_time_in_proportion_to_its_size() -> None:
    events, piece = SseReader([]), b"x" * 2048
    events.feed(b"event: done\ndata: ")
    before = time.process_time()
    for _ in range(8192):
        assert events.feed(piece) == []
    ((name, data),) = events.feed(b"\n\n")
    assert (name, len(data)) == (b"done", 8192 * 2048)
    # Copying the buffer for each piece takes more than 10 s; this takes some milliseconds.
    assert time.process_time() - before < 2.0
