"""Connections are passed through byte by byte, bounded, and cut when the broker changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.pass_through import PassThroughListener

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.write(b"end")
    writer.close()


@asynccontextmanager
async def broker(serve: Serve = echo) -> AsyncIterator[str]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"tcp://{host}:{port}"
    server.close()


@asynccontextmanager
async def passing(listener: PassThroughListener) -> AsyncIterator[int]:
    endpoint = await listener.open(lambda: None)
    yield int(endpoint.rpartition(":")[2])
    await listener.close()


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def act() -> None:
        async with asyncio.timeout(20):
            await scene()

    asyncio.run(act())


def test_bytes_pass_both_ways_and_a_half_closed_connection_gets_its_answer() -> None:
    async def scene() -> None:
        async with (
            broker() as target,
            passing(PassThroughListener("tcp://127.0.0.1:0", lambda: target)) as port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            content = bytes(range(256)) * 8000
            writer.write(content)
            writer.write_eof()
            assert await reader.read(-1) == content + b"end"
            writer.close()

    play(scene)


def test_the_broker_learns_whose_connection_it_is_before_the_first_byte() -> None:
    told: list[tuple[str, str]] = []
    seen: list[tuple[str, int]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        host, port = writer.get_extra_info("peername")
        seen.append((f"{host}:{port}", len(told)))
        writer.close()

    async def tell(source: str, origin: str) -> None:
        await asyncio.sleep(0)
        told.append((source, origin))

    async def scene() -> None:
        async with (
            broker(serve) as target,
            passing(PassThroughListener("tcp://127.0.0.1:0", lambda: target, tell)) as port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            own = writer.get_extra_info("sockname")
            writer.write(b"x")
            assert await reader.read(-1) == b""
            assert told == [(seen[0][0], f"{own[0]}:{own[1]}")]
            assert seen[0][1] == 1
            writer.close()

    play(scene)


def test_a_connection_waits_for_a_broker_to_appear() -> None:
    async def scene() -> None:
        found: list[str] = []
        asked = asyncio.Event()

        def look() -> str | None:
            asked.set()
            return found[0] if found else None

        listener = PassThroughListener("tcp://127.0.0.1:0", look)
        async with broker() as target, passing(listener) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"early")
            await asked.wait()
            found.append(target)
            assert await reader.readexactly(5) == b"early"
            writer.close()

    play(scene)


def test_a_connection_does_not_wait_for_ever() -> None:
    async def scene() -> None:
        limits = ConnectionLimits(greeting=0.05)
        listener = PassThroughListener("tcp://127.0.0.1:0", lambda: None, limits=limits)
        async with passing(listener) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()

    play(scene)


def test_all_connections_are_cut_when_the_broker_changes() -> None:
    async def scene() -> None:
        listener: PassThroughListener
        async with broker() as target:
            listener = PassThroughListener("tcp://127.0.0.1:0", lambda: target)
            async with passing(listener) as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"a")
                assert await reader.readexactly(1) == b"a"
                listener.cut()
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
                writer.close()
                assert listener.connection_count == 0

    play(scene)


async def write_until_full(writer: asyncio.StreamWriter, piece: bytes, most: int) -> int:
    """Write until nothing is taken any more; return the bytes that were written."""
    for number in range(1, most + 1):
        writer.write(piece)
        try:
            async with asyncio.timeout(1.0):
                await writer.drain()
        except TimeoutError:
            return number * len(piece)
    return most * len(piece)


def test_a_broker_that_does_not_read_stops_the_peer() -> None:
    async def scene() -> None:
        go_on = asyncio.Event()
        got: list[int] = []

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            while data := await reader.read(1 << 20):
                got.append(len(data))
            writer.close()

        async with (
            broker(slow) as target,
            passing(PassThroughListener("tcp://127.0.0.1:0", lambda: target)) as port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            piece = bytes(1 << 20)
            # Kernel and pass-through hold a bounded number of bytes, so the peer must wait.
            sent = await write_until_full(writer, piece, 200)
            assert sent < 100 * len(piece)
            go_on.set()
            writer.write_eof()
            assert await reader.read(-1) == b""
            assert sum(got) == sent
            writer.close()

    play(scene)


def test_a_broker_that_resets_a_connection_resets_the_peers() -> None:
    async def scene() -> None:
        async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1)
            writer.transport.abort()

        async with (
            broker(rude) as target,
            passing(PassThroughListener("tcp://127.0.0.1:0", lambda: target)) as port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()

    play(scene)


def test_without_a_broker_a_peer_can_be_told_so() -> None:
    listener = PassThroughListener(
        "tcp://127.0.0.1:0", lambda: None, refusal=b"no broker", refused_after=0.0
    )

    async def scene() -> None:
        async with passing(listener) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"a question")
            assert await reader.read(-1) == b"no broker"
            writer.close()

    play(scene)
