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
    """Run the event loop until a condition holds: no event reports joins and leaves."""
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


class RouterScene:
    """A router, the messages it received, and libzmq's sockets."""

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
        """Drain until a condition holds."""

        def look() -> Any:
            self.heard += self.router.drain(limit)
            return condition()

        await until(look)

    def say(self, name: bytes, *frames: bytes) -> Sent:
        sent = self.router.send(name, frames)
        self.router.flush()
        return sent


@asynccontextmanager
async def open_router(
    endpoint: str = "tcp://127.0.0.1:0", **options: Any
) -> AsyncIterator[RouterScene]:
    scene = RouterScene(endpoint, **options)
    scene.endpoint = await scene.router.open(scene.woken.set)
    try:
        yield scene
    finally:
        scene.context.destroy(linger=0)
        await scene.router.close()


async def received(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """Wait for a message in a thread: the router needs this one."""
    assert await asyncio.to_thread(socket.poll, 10_000), "nothing came"
    return socket.recv_multipart()


@asynccontextmanager
async def raw(scene: RouterScene, name: bytes) -> AsyncIterator[Peer]:
    async with peer(scene.endpoint, GREETING_NULL + ready(name)) as somebody:
        await somebody.hear(64 + 43)
        yield somebody


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.ROUTER])
@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:0", "tcp://[::1]:0", "ipc"])
def test_libzmqs_sockets_send_and_receive(kind: int, endpoint: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with open_router(f"ipc://{tmp_path}/z" if endpoint == "ipc" else endpoint) as scene:
            socket = scene.socket(kind, b"anna")
            if kind == zmq.ROUTER:
                # To it we are the one without a name.
                await scene.until(lambda: scene.say(b"anna", b"first") is Sent.YES)
                name = (await received(socket))[0]
                socket.send_multipart([name, b"", b"x" * 70_000])
            else:
                socket.send_multipart([b"", b"x" * 70_000])
            await scene.until(lambda: scene.heard)
            assert scene.heard == [(b"anna", [b"", b"x" * 70_000])]
            assert scene.say(b"anna", b"", b"y" * 70_000) is Sent.YES
            assert (await received(socket))[-2:] == [b"", b"y" * 70_000]

    run(story)


def test_a_req_has_no_name_and_gets_its_answer_all_the_same() -> None:
    async def story() -> None:
        async with open_router() as scene:
            first, second = scene.socket(zmq.REQ), scene.socket(zmq.REQ)
            first.send(b"one")
            second.send(b"two")
            await scene.until(lambda: len(scene.heard) == 2)
            for name, frames in scene.heard:
                assert (len(name), name[0], frames[0]) == (5, 0, b"")
                scene.say(name, *frames)
            assert await received(first) == [b"one"]
            assert await received(second) == [b"two"]

    run(story)


def test_addresses_that_are_made_up_do_not_recur_after_a_restart() -> None:
    async def story() -> None:
        names = []
        for _ in range(2):
            async with open_router() as scene:
                peer_without_name = scene.socket(zmq.REQ)
                peer_without_name.send(b"one")
                await scene.until(lambda: len(scene.heard) == 1)
                names.append(scene.heard[0][0])
        assert names[0] != names[1]

    run(story)


def test_a_peer_that_only_asks_whether_we_are_there_keeps_its_connection() -> None:
    async def story() -> None:
        async with open_router() as scene:
            beats = {"HEARTBEAT_IVL": 20, "HEARTBEAT_TIMEOUT": 200}
            socket = scene.socket(zmq.DEALER, b"anna", **beats)
            monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            socket.send(b"hello")
            await scene.until(lambda: scene.heard)
            assert not await asyncio.to_thread(monitor.poll, 600), "it gave us up"
            socket.disable_monitor()
            monitor.close()

    run(story)


def test_sending_to_an_unknown_peer_answers_gone() -> None:
    async def story() -> None:
        async with open_router() as scene:
            assert scene.say(b"stranger", b"x") is Sent.GONE
            socket = scene.socket(zmq.DEALER, b"anna")
            socket.send(b"hello")
            await scene.until(lambda: scene.heard)
            socket.close()
            await scene.until(lambda: scene.say(b"anna", b"x") is Sent.GONE)

    run(story)


def test_only_the_peer_that_does_not_read_becomes_full() -> None:
    async def story() -> None:
        async with open_router(limits=ConnectionLimits(unsent_limit=1_000_000)) as scene:
            lazy = scene.socket(zmq.DEALER, b"lazy", RCVHWM=1)
            keen = scene.socket(zmq.DEALER, b"keen")
            lazy.send(b"here")
            keen.send(b"here")
            await scene.until(lambda: len(scene.heard) == 2)
            outcomes = [scene.say(b"lazy", b"x" * 100_000) for _ in range(500)]
            assert outcomes[0] is Sent.YES
            assert Sent.FULL in outcomes
            assert scene.router.trouble["messages unread"] == outcomes.count(Sent.FULL)
            assert scene.say(b"keen", b"hello") is Sent.YES
            assert await received(keen) == [b"hello"]

    run(story)


def test_a_reconnecting_peer_keeps_its_identity_and_its_earlier_messages_come_first() -> None:
    async def story() -> None:
        async with open_router() as scene, raw(scene, b"anna") as old:
            old.say(message(b"the last word"))
            await scene.woken.wait()
            async with raw(scene, b"anna") as new:
                new.say(message(b"READY"))
                await scene.until(lambda: len(scene.heard) == 2)
                assert scene.heard == [(b"anna", [b"the last word"]), (b"anna", [b"READY"])]
                assert await old.is_closed()
                assert scene.say(b"anna", b"welcome") is Sent.YES
                assert await new.hear(9) == message(b"welcome")

    run(story)


def test_messages_before_the_end_are_drained_and_then_the_identity_is_free() -> None:
    async def story() -> None:
        async with open_router() as scene:
            async with raw(scene, b"anna") as somebody:
                somebody.say(message(b"farewell"))
                await scene.woken.wait()
            anna = scene.router._by_address[b"anna"]
            await until(lambda: anna.has_ended)
            assert scene.say(b"anna", b"x") is Sent.GONE
            await scene.until(lambda: scene.heard == [(b"anna", [b"farewell"])])
            await scene.until(lambda: not scene.router._by_address)

    run(story)


def test_a_busy_peer_does_not_delay_a_quiet_one() -> None:
    async def story() -> None:
        async with open_router() as scene, raw(scene, b"loud") as loud, raw(scene, b"calm") as calm:
            loud.say(message(b"x") * 800)
            await scene.woken.wait()
            calm.say(message(b"please"))
            await until(lambda: len(scene.router._ready) == 2)
            first = scene.router.drain(100)
            assert (b"calm", [b"please"]) in first
            scene.heard += first
            await scene.until(lambda: len(scene.heard) == 801, limit=100)

    run(story)


def test_nothing_is_lost_when_more_comes_than_may_wait() -> None:
    async def story() -> None:
        async with open_router() as scene:
            socket = scene.socket(zmq.DEALER, b"loud", SNDHWM=0)
            for number in range(20_000):
                socket.send(b"%d" % number)
            await scene.until(lambda: len(scene.heard) == 20_000, limit=500)
            assert [int(frames[0]) for _, frames in scene.heard] == list(range(20_000))

    run(story)


def test_who_makes_no_sense_is_closed_and_others_live_on() -> None:
    async def story() -> None:
        async with open_router() as scene, raw(scene, b"good") as good:
            for nonsense in (b"GET / HTTP/1.1\r\n\r\n", GREETING_NULL + b"\x00\x01x"):
                async with peer(scene.endpoint, nonsense) as bad:
                    while not await bad.is_closed():
                        pass
            assert scene.router.trouble == {"no ZeroMQ, but HTTP": 1, "handshake broken off": 1}
            good.say(message(b"still here"))
            await scene.until(lambda: scene.heard)

    run(story)


def test_a_port_that_is_taken_is_named() -> None:
    async def story() -> None:
        async with open_router() as scene:
            with pytest.raises(OSError, match=f"cannot listen on {scene.endpoint}: "):
                await Router(scene.endpoint).open(lambda: None)

    run(story)
