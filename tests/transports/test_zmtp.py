"""Our ROUTER with libzmq's own sockets, and with peers that speak in bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.transports.sp_peers import Peer, peer, run
from tests.transports.zmtp_peers import GREETING_NULL, message, ready

from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import Sent
from dragoman.transports.zmtp import Router


async def until(condition: Callable[[], Any]) -> None:
    """Let everybody else run until it is so; that somebody came or went is told to nobody."""
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


class House:
    """A router, what it has heard, and libzmq's sockets around it."""

    def __init__(self, endpoint: str = "tcp://127.0.0.1:0", **options: Any) -> None:
        self.router = Router(endpoint, **options)
        self.heard: list[tuple[bytes, list[bytes]]] = []
        self.woken = asyncio.Event()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.endpoint = ""

    def socket(self, kind: int, name: bytes = b"", **options: int) -> "zmq.Socket[bytes]":
        socket = self.context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IPV6, 1)
        if name:
            socket.setsockopt(zmq.IDENTITY, name)
        for option, value in options.items():
            socket.setsockopt(getattr(zmq, option), value)
        socket.connect(self.endpoint)
        return socket

    async def until(self, condition: Callable[[], Any], limit: int = 1000) -> None:
        """Drain until it is so."""

        def look() -> Any:
            self.heard += self.router.drain(limit)
            return condition()

        await until(look)

    def say(self, name: bytes, *frames: bytes) -> Sent:
        sent = self.router.send(name, frames)
        self.router.flush()
        return sent


@asynccontextmanager
async def house(endpoint: str = "tcp://127.0.0.1:0", **options: Any) -> AsyncIterator[House]:
    made = House(endpoint, **options)
    made.endpoint = await made.router.open(made.woken.set)
    try:
        yield made
    finally:
        made.context.destroy(linger=0)
        await made.router.close()


async def received(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """Wait for a message in a thread: the router needs this one."""
    assert await asyncio.to_thread(socket.poll, 10_000), "nothing came"
    return socket.recv_multipart()


@asynccontextmanager
async def raw(made: House, name: bytes) -> AsyncIterator[Peer]:
    async with peer(made.endpoint, GREETING_NULL + ready(name)) as somebody:
        await somebody.hear(64 + 43)
        yield somebody


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.ROUTER])
@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:0", "tcp://[::1]:0", "ipc"])
def test_libzmqs_sockets_are_heard_and_answered(kind: int, endpoint: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with house(f"ipc://{tmp_path}/z" if endpoint == "ipc" else endpoint) as made:
            socket = made.socket(kind, b"anna")
            if kind == zmq.ROUTER:
                # To it we are the one without a name.
                await made.until(lambda: made.say(b"anna", b"first") is Sent.YES)
                name = (await received(socket))[0]
                socket.send_multipart([name, b"", b"x" * 70_000])
            else:
                socket.send_multipart([b"", b"x" * 70_000])
            await made.until(lambda: made.heard)
            assert made.heard == [(b"anna", [b"", b"x" * 70_000])]
            assert made.say(b"anna", b"", b"y" * 70_000) is Sent.YES
            assert (await received(socket))[-2:] == [b"", b"y" * 70_000]

    run(story)


def test_a_req_has_no_name_and_gets_its_answer_all_the_same() -> None:
    async def story() -> None:
        async with house() as made:
            first, second = made.socket(zmq.REQ), made.socket(zmq.REQ)
            first.send(b"one")
            second.send(b"two")
            await made.until(lambda: len(made.heard) == 2)
            for name, frames in made.heard:
                assert (len(name), name[0], frames[0]) == (5, 0, b"")
                made.say(name, *frames)
            assert await received(first) == [b"one"]
            assert await received(second) == [b"two"]

    run(story)


def test_a_peer_that_only_asks_whether_we_are_there_keeps_its_connection() -> None:
    async def story() -> None:
        async with house() as made:
            beats = {"HEARTBEAT_IVL": 20, "HEARTBEAT_TIMEOUT": 200}
            socket = made.socket(zmq.DEALER, b"anna", **beats)
            monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            socket.send(b"hello")
            await made.until(lambda: made.heard)
            assert not await asyncio.to_thread(monitor.poll, 600), "it gave us up"
            socket.disable_monitor()
            monitor.close()

    run(story)


def test_sending_to_nobody_is_said_and_not_silent() -> None:
    async def story() -> None:
        async with house() as made:
            assert made.say(b"stranger", b"x") is Sent.GONE
            socket = made.socket(zmq.DEALER, b"anna")
            socket.send(b"hello")
            await made.until(lambda: made.heard)
            socket.close()
            await made.until(lambda: made.say(b"anna", b"x") is Sent.GONE)

    run(story)


def test_a_peer_that_does_not_read_becomes_full_and_nobody_else() -> None:
    async def story() -> None:
        async with house(bounds=ConnectionLimits(unread_limit=1_000_000)) as made:
            lazy = made.socket(zmq.DEALER, b"lazy", RCVHWM=1)
            keen = made.socket(zmq.DEALER, b"keen")
            lazy.send(b"here")
            keen.send(b"here")
            await made.until(lambda: len(made.heard) == 2)
            outcomes = [made.say(b"lazy", b"x" * 100_000) for _ in range(500)]
            assert outcomes[0] is Sent.YES
            assert Sent.FULL in outcomes
            assert made.router.trouble["messages unread"] == outcomes.count(Sent.FULL)
            assert made.say(b"keen", b"hello") is Sent.YES
            assert await received(keen) == [b"hello"]

    run(story)


def test_a_reconnecting_peer_takes_over_its_name_and_what_it_said_before_comes_first() -> None:
    async def story() -> None:
        async with house() as made, raw(made, b"anna") as old:
            old.say(message(b"the last word"))
            await made.woken.wait()
            async with raw(made, b"anna") as new:
                new.say(message(b"READY"))
                await made.until(lambda: len(made.heard) == 2)
                assert made.heard == [(b"anna", [b"the last word"]), (b"anna", [b"READY"])]
                assert await old.is_closed()
                assert made.say(b"anna", b"welcome") is Sent.YES
                assert await new.hear(9) == message(b"welcome")

    run(story)


def test_what_was_said_before_the_end_is_heard_and_then_the_name_is_free() -> None:
    async def story() -> None:
        async with house() as made:
            async with raw(made, b"anna") as somebody:
                somebody.say(message(b"farewell"))
                await made.woken.wait()
            anna = made.router._names[b"anna"]
            await until(lambda: anna.has_ended)
            assert made.say(b"anna", b"x") is Sent.GONE
            await made.until(lambda: made.heard == [(b"anna", [b"farewell"])])
            await made.until(lambda: not made.router._names)

    run(story)


def test_one_who_says_much_is_not_heard_before_those_who_say_little() -> None:
    async def story() -> None:
        async with house() as made, raw(made, b"loud") as loud, raw(made, b"calm") as calm:
            loud.say(message(b"x") * 800)
            await made.woken.wait()
            calm.say(message(b"please"))
            await until(lambda: len(made.router._in_line) == 2)
            first = made.router.drain(100)
            assert (b"calm", [b"please"]) in first
            made.heard += first
            await made.until(lambda: len(made.heard) == 801, limit=100)

    run(story)


def test_nothing_is_lost_when_more_comes_than_may_wait() -> None:
    async def story() -> None:
        async with house() as made:
            socket = made.socket(zmq.DEALER, b"loud", SNDHWM=0)
            for number in range(20_000):
                socket.send(b"%d" % number)
            await made.until(lambda: len(made.heard) == 20_000, limit=500)
            assert [int(frames[0]) for _, frames in made.heard] == list(range(20_000))

    run(story)


def test_who_makes_no_sense_is_closed_and_others_live_on() -> None:
    async def story() -> None:
        async with house() as made, raw(made, b"good") as good:
            for nonsense in (b"GET / HTTP/1.1\r\n\r\n", GREETING_NULL + b"\x00\x01x"):
                async with peer(made.endpoint, nonsense) as bad:
                    while not await bad.is_closed():
                        pass
            assert made.router.trouble == {"no ZeroMQ": 1, "handshake broken off": 1}
            good.say(message(b"still here"))
            await made.until(lambda: made.heard)

    run(story)


def test_a_port_that_is_taken_is_named() -> None:
    async def story() -> None:
        async with house() as made:
            with pytest.raises(OSError, match=f"cannot listen on {made.endpoint}: "):
                await Router(made.endpoint).open(lambda: None)

    run(story)
