"""An SP replier to test, and requesters that speak to it in bytes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import Sent
from dragoman.transports.sp import SpReplier
from dragoman.transports.sp_connection import REQUESTER

LIMIT = 10.0
HELLO = bytes.fromhex("0000000000000009e05da11e68656c6c6f")
WORLD = bytes.fromhex("0000000000000009e05da11e776f726c64")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT * 4):
            await test()

    asyncio.run(limited())


class Replier:
    """A replier, what it has drained, and a way to wait for more."""

    def __init__(self, replier: SpReplier, endpoint: str, woken: asyncio.Event) -> None:
        self.replier = replier
        self.endpoint = endpoint
        self.woken = woken
        self.drained: list[tuple[bytes, list[bytes]]] = []

    async def take(self, many: int) -> list[tuple[bytes, list[bytes]]]:
        """Wait until so many more items are drained."""
        async with asyncio.timeout(LIMIT):
            while len(self.drained) < many:
                await self.woken.wait()
                self.woken.clear()
                self.drained += self.replier.drain(1000)
        taken, self.drained = self.drained[:many], self.drained[many:]
        return taken

    def answer(self, address: bytes, body: bytes) -> Sent:
        sent = self.replier.send(address, [body])
        self.replier.flush()
        return sent

    async def echo(self) -> None:
        """Answer everything with itself, for ever."""
        while True:
            await self.woken.wait()
            self.woken.clear()
            for address, frames in self.replier.drain(1000):
                if frames:
                    self.replier.send(address, frames)
            self.replier.flush()


@asynccontextmanager
async def replier(
    endpoint: str = "tcp://127.0.0.1:0", limits: ConnectionLimits | None = None
) -> AsyncIterator[Replier]:
    woken = asyncio.Event()
    made = SpReplier(endpoint, limits)
    opened = await made.open(woken.set)
    try:
        yield Replier(made, opened, woken)
    finally:
        await made.close()


class Peer:
    """A requester that speaks in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def hear(self, size: int) -> bytes:
        async with asyncio.timeout(LIMIT):
            return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(LIMIT):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def peer(endpoint: str, greeting: bytes = REQUESTER) -> AsyncIterator[Peer]:
    if endpoint.startswith("ipc://"):
        streams = await asyncio.open_unix_connection(endpoint[6:])
    else:
        host, _, port = endpoint[6:].rpartition(":")
        streams = await asyncio.open_connection(host.strip("[]"), int(port))
    made = Peer(*streams)
    made.say(greeting)
    try:
        yield made
    finally:
        await made.close()


def frame(request: int, body: bytes = b"x") -> bytes:
    message = (0x80000000 + request).to_bytes(4) + body
    return len(message).to_bytes(8) + message
