"""Our DEALER with our own ROUTER and with libzmq's, plain and with CURVE."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from dragoman.transports.base import Sent
from dragoman.transports.dealer import Dealer
from dragoman.transports.zmq_peers import SEND_HWM, CurveKeys
from dragoman.transports.zmtp import Router

SERVER, OWN = zmq.curve_keypair(), zmq.curve_keypair()


class Inbox:
    """What arrived at one end."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()

    async def next(self, drain: Callable[[int], list[tuple[bytes, list[bytes]]]]) -> list[bytes]:
        async with asyncio.timeout(20):
            while True:
                for _, frames in drain(1):
                    return frames
                self.arrived.clear()
                await self.arrived.wait()


class Watched(Dealer):
    """A dealer that says when its connection is lost."""

    lost: asyncio.Event

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


def keys(server: bytes = SERVER[0]) -> CurveKeys:
    return CurveKeys(*OWN, server)


@pytest.mark.parametrize("is_secured", [False, True])
def test_messages_pass_both_ways(is_secured: bool) -> None:
    async def scene() -> None:
        inbox, answers = Inbox(), Inbox()
        router = Router("tcp://127.0.0.1:0", secrets=[SERVER[1]] if is_secured else [])
        endpoint = await router.open(inbox.arrived.set)
        dealer = Dealer(endpoint, b"me", keys=keys() if is_secured else None)
        await dealer.open(answers.arrived.set)
        large = [b"", b"x" * 300_000, b"end"]
        assert dealer.send(b"", large) is Sent.YES
        assert await inbox.next(router.drain) == large
        router.send(b"me", [b"answer", b"y" * 70_000])
        router.flush()
        assert await answers.next(dealer.drain) == [b"answer", b"y" * 70_000]
        dealer.send(b"", [b"last"])
        await dealer.close()
        assert await inbox.next(router.drain) == [b"last"]
        await router.close()

    asyncio.run(scene())


@pytest.mark.parametrize("is_secured", [False, True])
def test_libzmq_understands_it(is_secured: bool) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.LINGER, 0)
    router.setsockopt(zmq.RCVTIMEO, 20_000)
    if is_secured:
        router.setsockopt(zmq.CURVE_SERVER, 1)
        router.setsockopt(zmq.CURVE_SECRETKEY, SERVER[1])
    port = router.bind_to_random_port("tcp://127.0.0.1")

    async def scene() -> None:
        answers = Inbox()
        dealer = Dealer(f"tcp://127.0.0.1:{port}", b"me", keys=keys() if is_secured else None)
        await dealer.open(answers.arrived.set)
        dealer.send(b"", [b"ask", b"z" * 1000])
        asked = await asyncio.to_thread(router.recv_multipart)
        assert asked == [b"me", b"ask", b"z" * 1000]
        router.send_multipart([b"me", b"answer"])
        assert await answers.next(dealer.drain) == [b"answer"]
        await dealer.close()

    asyncio.run(scene())
    router.close()
    context.term()


def test_a_lost_connection_is_restored_and_messages_wait_for_it(tmp_path: Path) -> None:
    async def scene() -> None:
        inbox = Inbox()
        endpoint = f"ipc://{tmp_path}/socket"
        dealer, lost = Watched(endpoint, b"me"), asyncio.Event()
        dealer.lost = lost
        await dealer.open(lambda: None)
        dealer.send(b"", [b"before"])
        for _ in range(2):
            router = Router(endpoint)
            await router.open(inbox.arrived.set)
            assert await inbox.next(router.drain) == [b"before"]
            await router.close()
            async with asyncio.timeout(20):
                await lost.wait()
            lost.clear()
            dealer.send(b"", [b"before"])
        await dealer.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("is_secured", "given", "text"),
    [
        (True, None, "wants CURVE"),
        (False, keys(), "no CURVE handshake"),
        (True, keys(zmq.curve_keypair()[0]), "no CURVE handshake"),
        (True, keys(), "refuses this key"),
    ],
)
def test_a_refusal_says_why(is_secured: bool, given: CurveKeys | None, text: str) -> None:
    async def scene() -> None:
        secrets = [SERVER[1]] if is_secured else []
        router = Router("tcp://127.0.0.1:0", secrets=secrets, admits=lambda key: False)
        woken = asyncio.Event()
        dealer = Dealer(await router.open(lambda: None), b"me", keys=given)
        await dealer.open(woken.set)
        async with asyncio.timeout(20):
            await woken.wait()
        assert text in dealer.refusal
        await dealer.close()
        await router.close()

    asyncio.run(scene())


def test_messages_to_an_absent_broker_are_bounded() -> None:
    async def scene() -> None:
        dealer = Dealer("tcp://127.0.0.1:1")
        assert all(dealer.send(b"", [b"x"]) is Sent.YES for _ in range(SEND_HWM))
        assert dealer.send(b"", [b"x"]) is Sent.FULL
        await dealer.close()

    asyncio.run(scene())


def test_all_messages_of_a_turn_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        inbox = Inbox()
        router = Router("tcp://127.0.0.1:0")
        dealer = Dealer(await router.open(inbox.arrived.set), b"me")
        await dealer.open(lambda: None)
        async with asyncio.timeout(20):
            await dealer._opened.wait()
        writes: list[int] = []
        transport = dealer._transport
        assert transport is not None
        monkeypatch.setattr(transport, "write", lambda data: writes.append(len(data)))
        for _ in range(10):
            dealer.send(b"", [b"x"])
            dealer.flush()
        await asyncio.sleep(0)
        assert writes == [30]
        await dealer.close()
        await router.close()

    asyncio.run(scene())


@pytest.mark.parametrize("is_secured", [False, True])
def test_a_lost_connection_is_followed_by_one_to_the_next_address(is_secured: bool) -> None:
    async def scene() -> None:
        secrets, inboxes = [SERVER[1]] if is_secured else [], (Inbox(), Inbox())
        routers = [Router("tcp://127.0.0.1:0", secrets=secrets) for _ in range(2)]
        places = [
            (await router.open(inbox.arrived.set)).removeprefix("tcp://")
            for router, inbox in zip(routers, inboxes, strict=True)
        ]
        dealer = Dealer(
            f"tcp://{places[0]},{places[1]}", b"me", keys=keys() if is_secured else None
        )
        await dealer.open(lambda: None)
        dealer.send(b"", [b"one"])
        assert await inboxes[0].next(routers[0].drain) == [b"one"]
        assert dealer.reconnections == 0
        await routers[0].close()
        dealer.send(b"", [b"two"])
        async with asyncio.timeout(20):
            while dealer.reconnections == 0:
                await dealer._settled.wait()
                await asyncio.sleep(0)
        dealer.send(b"", [b"three"])
        dealer.flush()
        while await inboxes[1].next(routers[1].drain) != [b"three"]:
            pass
        assert dealer.refusal == ""
        await dealer.close()
        await routers[1].close()

    asyncio.run(scene())


def test_an_address_that_accepts_and_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.transports.addresses.PATIENCE", (0.05, 1.0))

    async def scene() -> None:
        inbox = Inbox()
        router = Router("tcp://127.0.0.1:0")
        place = (await router.open(inbox.arrived.set)).removeprefix("tcp://")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            dealer = Dealer(f"tcp://127.0.0.1:{port},{place}", b"me")
            await dealer.open(lambda: None)
            dealer.send(b"", [b"hello"])
            assert await inbox.next(router.drain) == [b"hello"]
            await dealer.close()
        await router.close()

    asyncio.run(scene())


def test_a_renewed_dealer_uses_its_next_address() -> None:
    async def scene() -> None:
        inboxes = (Inbox(), Inbox())
        routers = [Router("tcp://127.0.0.1:0") for _ in range(2)]
        places = [
            (await router.open(inbox.arrived.set)).removeprefix("tcp://")
            for router, inbox in zip(routers, inboxes, strict=True)
        ]
        dealer = Dealer(f"tcp://{places[0]},{places[1]}", b"me")
        await dealer.open(lambda: None)
        dealer.send(b"", [b"one"])
        assert await inboxes[0].next(routers[0].drain) == [b"one"]
        assert await dealer.renew()
        dealer.send(b"", [b"two"])
        assert await inboxes[1].next(routers[1].drain) == [b"two"]
        await dealer.close()
        for router in routers:
            await router.close()
        alone = Dealer("tcp://127.0.0.1:1")
        assert not await alone.renew()

    asyncio.run(scene())
