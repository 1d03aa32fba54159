"""A key that waits for approval, shown by libzmq's own peers: they get in when it is approved."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import zmq

from dragoman.transports import pending_connections
from dragoman.transports.zmtp import Router


class Doorstep:
    """A router that admits some keys, and what its strangers showed."""

    def __init__(self, *, can_be_approved: bool = True) -> None:
        self.public, secret = zmq.curve_keypair()
        self.admitted: set[str] = set()
        self.seen: list[str] = []
        self.can_be_approved = can_be_approved
        self.changed = asyncio.Event()
        self.router = Router(
            "tcp://127.0.0.1:0",
            secrets=[secret],
            admits=self.admitted.__contains__,
            refused=self.refused,
        )
        self.context = zmq.Context()
        self.sockets: list[zmq.Socket[bytes]] = []

    def refused(self, key: str, source: str) -> bool:
        self.seen.append(key)
        self.changed.set()
        return self.can_be_approved

    def stranger(self, endpoint: str) -> "zmq.Socket[bytes]":
        public, secret = zmq.curve_keypair()
        socket = self.context.socket(zmq.DEALER)
        socket.curve_publickey, socket.curve_secretkey = public, secret
        socket.curve_serverkey = self.public
        socket.connect(endpoint)
        self.sockets.append(socket)
        return socket

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def opened(doorstep: Doorstep) -> AsyncIterator[str]:
    try:
        yield await doorstep.router.open(doorstep.changed.set)
    finally:
        for socket in doorstep.sockets:
            socket.close(linger=0)
        doorstep.context.term()
        await doorstep.router.close()


def test_a_peer_of_libzmq_that_is_approved_while_it_runs_gets_in() -> None:
    async def story() -> None:
        doorstep = Doorstep()
        async with opened(doorstep) as endpoint:
            socket = doorstep.stranger(endpoint)
            socket.send(b"hello")
            await doorstep.until(lambda: doorstep.seen)
            assert doorstep.router.trouble["key refused"] == 1
            doorstep.admitted.add(doorstep.seen[0])
            heard: list[list[bytes]] = []

            def has_heard() -> bool:
                heard.extend(frames for _, frames in doorstep.router.drain(9))
                return bool(heard)

            await doorstep.until(has_heard)
            assert heard == [[b"hello"]]

    asyncio.run(story())


def test_a_peer_that_waits_is_closed_and_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(pending_connections, "HOLD", 0.1)
        doorstep = Doorstep()
        async with opened(doorstep) as endpoint:
            doorstep.stranger(endpoint).send(b"hello")
            await doorstep.until(lambda: len(doorstep.seen) == 2)
            assert doorstep.seen[0] == doorstep.seen[1]

    asyncio.run(story())


@pytest.mark.parametrize("reason", ["too many", "revoked"])
def test_others_hear_an_error(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    async def story() -> None:
        monkeypatch.setattr(pending_connections, "MOST_HELD", 0 if reason == "too many" else 9)
        doorstep = Doorstep(can_be_approved=reason != "revoked")
        async with opened(doorstep) as endpoint:
            socket = doorstep.stranger(endpoint)
            monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            doorstep.sockets.append(monitor)
            assert await asyncio.to_thread(monitor.poll, 20_000)
            assert len(doorstep.seen) == 1

    asyncio.run(story())


def test_closing_the_listener_ends_what_is_held() -> None:
    async def story() -> None:
        doorstep = Doorstep()
        async with opened(doorstep) as endpoint:
            doorstep.stranger(endpoint)
            await doorstep.until(lambda: doorstep.seen)
            assert doorstep.router.connection_count == 1
        assert doorstep.router.connection_count == 0

    asyncio.run(story())
