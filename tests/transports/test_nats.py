"""The NATS transport against a real server, both ends in one process."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.transports.base import Sent
from dragoman.transports.nats import Nats, NatsPeer
from dragoman.transports.nats_server import NatsServer

pytestmark = pytest.mark.interop


class Listener:
    """Collects the messages of a transport."""

    def __init__(self, transport: Nats) -> None:
        self.transport = transport
        self.heard: list[tuple[bytes, list[bytes]]] = []
        self._more = asyncio.Event()

    def wake(self) -> None:
        self.heard += self.transport.drain(100)
        self._more.set()

    async def until(self, enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not enough():
                self._more.clear()
                await self._more.wait()

    async def take(self, number: int = 1) -> list[tuple[bytes, list[bytes]]]:
        await self.until(lambda: len(self.heard) >= number)
        return self.heard


async def opened(transport: Nats) -> Listener:
    listener = Listener(transport)
    await transport.open(listener.wake)
    return listener


def with_server(
    tmp_path: Path, story: Callable[[NatsServer], Coroutine[Any, Any, None]], **options: Any
) -> None:
    async def run() -> None:
        server = NatsServer(tmp_path / "nats", **options)
        await server.start()
        try:
            await story(server)
        finally:
            await server.stop()

    asyncio.run(run())


def say(transport: Nats, subject: str, body: bytes, headers: bytes = b"", reply: str = "") -> None:
    assert transport.send(subject.encode(), [body, headers, reply.encode()]) is Sent.YES
    transport.flush()


def test_messages_come_with_subject_headers_and_reply(tmp_path: Path) -> None:
    async def story(server: NatsServer) -> None:
        hearer = Nats(server.url, ["a.*.c"])
        sender = Nats(server.url, [])
        listener = await opened(hearer)
        await opened(sender)
        say(sender, "a.b.c", b"body", b'{"X-One":"1","X-Two":"two"}', "back.to.me")
        ((subject, frames),) = await listener.take()
        assert subject == b"a.b.c"
        assert (frames[0], frames[2]) == (b"body", b"back.to.me")
        assert msgspec.json.decode(frames[1]) == {"X-One": "1", "X-Two": "two"}
        await sender.close()
        await hearer.close()

    with_server(tmp_path, story)


def test_the_order_of_the_wire_is_kept_across_subscriptions(tmp_path: Path) -> None:
    async def story(server: NatsServer) -> None:
        hearer = Nats(server.url, ["one", "two", "three"])
        sender = Nats(server.url, [])
        listener = await opened(hearer)
        await opened(sender)
        expected = []
        for number in range(3000):
            subject = ("one", "two", "three")[number * 7 % 3]
            expected.append((subject.encode(), str(number).encode()))
            sender.send(subject.encode(), [str(number).encode(), b"", b""])
        sender.flush()
        heard = await listener.take(3000)
        assert [(s, f[0]) for s, f in heard] == expected
        await sender.close()
        await hearer.close()

    with_server(tmp_path, story)


def test_a_request_without_a_subscriber_is_answered_with_503(tmp_path: Path) -> None:
    async def story(server: NatsServer) -> None:
        asker = Nats(server.url, ["inbox.*"])
        listener = await opened(asker)
        say(asker, "nobody.here", b"hello?", reply="inbox.1")
        ((subject, frames),) = await listener.take()
        assert (subject, frames[0]) == (b"inbox.1", b"")
        assert msgspec.json.decode(frames[1])["Status"] == "503"
        await asker.close()

    with_server(tmp_path, story)


def test_a_peer_has_its_subject_in_the_first_frame(tmp_path: Path) -> None:
    async def story(server: NatsServer) -> None:
        peer = NatsPeer(server.url, ["to.me"], connects_in_background=True)
        listener = Listener(peer)
        assert await peer.open(listener.wake) == f"tcp://127.0.0.1:{server.port}"
        peer.send(b"", [b"to.me", b"hello", b"", b"r"])
        peer.flush()
        ((address, frames),) = await listener.take()
        assert (address, frames) == (b"", [b"to.me", b"hello", b"", b"r"])
        await peer.close()

    with_server(tmp_path, story)


def test_what_is_sent_during_an_outage_arrives_after_it(tmp_path: Path) -> None:
    async def story(server: NatsServer) -> None:
        transport = Nats(server.url, ["echo"])
        listener = await opened(transport)
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await listener.until(lambda: (b"", [b"", b"", b""]) in listener.heard)
        say(transport, "echo", b"still here")
        await listener.until(lambda: (b"echo", [b"still here", b"", b""]) in listener.heard)
        assert transport.reconnections >= 1
        await transport.close()

    with_server(tmp_path, story)


def test_a_patient_peer_waits_for_a_server_that_comes_later(tmp_path: Path) -> None:
    async def story() -> None:
        first = NatsServer(tmp_path)
        await first.start()
        await first.stop()
        peer = NatsPeer(first.url, ["to.me"], connects_in_background=True)
        listener = Listener(peer)
        await peer.open(listener.wake)
        peer.send(b"", [b"to.me", b"early", b"", b""])
        peer.flush()
        second = NatsServer(tmp_path)
        await second.start()
        await listener.until(lambda: (b"", [b"to.me", b"early", b"", b""]) in listener.heard)
        await peer.close()
        await second.stop()

    asyncio.run(story())


def test_a_supervised_server_comes_and_goes_with_the_transport(tmp_path: Path) -> None:
    async def story() -> None:
        server = NatsServer(tmp_path)
        transport = Nats("", ["x"], server=server)
        listener = Listener(transport)
        assert await transport.open(listener.wake) == f"tcp://127.0.0.1:{server.port}"
        say(transport, "x", b"y")
        assert await listener.take() == [(b"x", [b"y", b"", b""])]
        await transport.close()
        assert server.pid is None

    asyncio.run(story())


def test_a_token_is_asked_for_and_never_shown(tmp_path: Path) -> None:
    async def story(server: NatsServer) -> None:
        transport = Nats(server.url, ["x"])
        listener = Listener(transport)
        assert "s3cret" not in await transport.open(listener.wake)
        say(transport, "x", b"y")
        await listener.take()
        await transport.close()

    with_server(tmp_path, story, token="s3cret")


def test_what_nats_does_not_take_is_counted_and_harms_nothing(tmp_path: Path) -> None:
    async def story(server: NatsServer) -> None:
        transport = Nats(server.url, ["x"])
        listener = await opened(transport)
        say(transport, "x", b"z" * (2 * 1024 * 1024))
        say(transport, "x", b"y")
        assert await listener.take() == [(b"x", [b"y", b"", b""])]
        assert transport.dropped == 1
        await transport.close()

    with_server(tmp_path, story)


def test_a_full_queue_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.transports.nats._MAX_UNSENT", 2)
    transport = Nats("nats://127.0.0.1:1", [], connects_in_background=True)
    frames = [b"", b"", b""]
    assert [transport.send(b"x", frames) for _ in range(3)] == [Sent.YES, Sent.YES, Sent.FULL]


def test_a_server_that_is_not_there_fails_an_impatient_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.transports.nats._CONNECT_TIMEOUT", 0.1)

    async def story() -> None:
        with pytest.raises(ConnectionError, match="no NATS server"):
            await Nats("nats://127.0.0.1:1", []).open(lambda: None)

    asyncio.run(story())
