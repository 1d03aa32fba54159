"""The connections of a mesh: both directions, addresses apart, losses told."""

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.server.mesh_transport import MeshDealer, MeshTransport, dial_address
from dragoman.transports.base import Sent
from dragoman.transports.zmtp import Router

TO_WEST = dial_address("west")


class Pair:
    """West listens, east connects to it."""

    def __init__(self) -> None:
        self.west = MeshTransport(Router("tcp://127.0.0.1:0"), {})
        self.news = asyncio.Event()

    async def open(self) -> None:
        dealer = MeshDealer(await self.west.open(self.news.set), b"east")
        self.east = MeshTransport(None, {"west": dealer})
        assert await self.east.open(self.news.set) == "memory:mesh"
        await dealer._opened.wait()
        assert self.east.send(TO_WEST, [b"hello"]) is Sent.YES
        self.east.flush()

    async def received(self, end: MeshTransport) -> tuple[bytes, list[bytes]]:
        """Wait for the next message."""
        while True:
            for found in end.drain(10):
                return found
            self.news.clear()
            await self.news.wait()


def play(scene: Callable[[Pair], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        pair = Pair()
        async with asyncio.timeout(20):
            await pair.open()
            await scene(pair)
            await pair.east.close()
            await pair.west.close()

    asyncio.run(all_of_it())


def test_messages_go_both_ways_under_addresses_that_name_the_direction() -> None:
    async def scene(pair: Pair) -> None:
        address, frames = await pair.received(pair.west)
        assert (address, frames) == (b"<east", [b"hello"])
        assert pair.west.send(address, [b"back"]) is Sent.YES
        pair.west.flush()
        assert await pair.received(pair.east) == (b">west", [b"back"])
        assert pair.east.connection_count == pair.west.connection_count == 1

    play(scene)


def test_a_broker_without_a_connection_is_gone() -> None:
    async def scene(pair: Pair) -> None:
        assert pair.west.send(b"<nobody", [b"x"]) is Sent.GONE
        assert pair.west.send(b"", [b"x"]) is Sent.GONE
        assert pair.east.send(b"<east", [b"x"]) is Sent.GONE

    play(scene)


def test_a_lost_connection_is_told_as_a_message_without_frames() -> None:
    async def scene(pair: Pair) -> None:
        await pair.received(pair.west)
        await pair.west.close()
        assert await pair.received(pair.east) == (b">west", [])
        assert pair.east.send(TO_WEST, [b"x"]) is Sent.GONE

    play(scene)


def test_without_keys_nothing_is_proved() -> None:
    async def scene(pair: Pair) -> None:
        address, _ = await pair.received(pair.west)
        assert pair.west.key_of(address) == ""
        assert pair.east.key_of(TO_WEST) == ""
        assert dict(pair.west.trouble) == {}

    play(scene)
