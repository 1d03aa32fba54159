"""A DEALER on its file descriptor, over real loopback sockets."""

import asyncio
import struct
from collections.abc import Callable

import pytest
import zmq

from dragoman.transports.base import Sent
from dragoman.transports.zmq import HandshakeMonitor, ZmqDealer
from dragoman.transports.zmtp import Router


class Pair:
    """A router and a dealer, and what each has received."""

    def __init__(self, identity: bytes = b"peer") -> None:
        self.router = Router("tcp://127.0.0.1:0")
        self.identity = identity
        self.at_router: list[tuple[bytes, list[bytes]]] = []
        self.at_dealer: list[list[bytes]] = []
        self.changed = asyncio.Event()

    async def open(self) -> str:
        endpoint = await self.router.open(self._drain_router)
        self.dealer = ZmqDealer(endpoint, self.identity)
        await self.dealer.open(self._drain_dealer)
        return endpoint

    def _drain_router(self) -> None:
        self.at_router += self.router.drain(2)
        self.changed.set()

    def _drain_dealer(self) -> None:
        if hasattr(self, "dealer"):
            self.at_dealer += [frames for _, frames in self.dealer.drain(1000)]
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                if not condition():
                    await self.changed.wait()

    async def close(self) -> None:
        await self.dealer.close()
        await self.router.close()


def test_messages_go_both_ways_and_port_zero_becomes_a_real_one() -> None:
    async def talk() -> None:
        pair = Pair()
        endpoint = await pair.open()
        assert endpoint.startswith("tcp://127.0.0.1:")
        assert not endpoint.endswith(":0")
        pair.dealer.send(b"", [b"hello", b""])
        await pair.until(lambda: len(pair.at_router) == 1)
        assert pair.at_router == [(b"peer", [b"hello", b""])]
        assert pair.router.send(b"peer", [b"", b"there"]) is Sent.YES
        pair.router.flush()
        await pair.until(lambda: len(pair.at_dealer) == 1)
        assert pair.at_dealer == [[b"", b"there"]]
        await pair.close()

    asyncio.run(talk())


def test_a_bounded_drain_loses_nothing_although_the_descriptor_signals_only_once() -> None:
    async def flood() -> None:
        pair = Pair()
        await pair.open()
        for n in range(500):
            pair.dealer.send(b"", [str(n).encode()])
        pair.dealer.flush()

        async def again() -> None:
            # A bounded drain wakes its owner, which a real loop answers in its next turn.
            while len(pair.at_router) < 500:
                await asyncio.sleep(0)
                pair._drain_router()

        async with asyncio.timeout(20):
            await again()
        assert [frames[0] for _, frames in pair.at_router] == [str(n).encode() for n in range(500)]
        await pair.close()

    asyncio.run(flood())


EVENTS = {
    "agreed": zmq.Event.HANDSHAKE_SUCCEEDED,
    "broken off": zmq.Event.HANDSHAKE_FAILED_NO_DETAIL,
    "mismatch": zmq.Event.HANDSHAKE_FAILED_PROTOCOL,
    "refused": zmq.Event.HANDSHAKE_FAILED_AUTH,
}


@pytest.mark.parametrize(
    ("has_keys", "events", "words"),
    [
        (False, ["broken off"], ""),
        (False, ["mismatch"], "wants CURVE"),
        (False, ["mismatch", "agreed", "broken off"], ""),
        (True, ["broken off"], "not the broker's key"),
        (True, ["agreed", "broken off"], ""),
        (True, ["agreed", "refused", "broken off"], "refuses this key"),
    ],
)
def test_only_a_broker_that_says_no_refuses_and_one_that_dies_does_not(
    has_keys: bool, events: list[str], words: str
) -> None:
    handshakes = HandshakeMonitor(has_keys)
    for name in events:
        handshakes.read(struct.pack("=Hi", int(EVENTS[name]), 0))
    assert words in handshakes.refusal
    assert bool(words) == bool(handshakes.refusal)
