"""NNG's requester for the SDK: tickets, timeouts, the window, reconnects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.transports.sp_peers import LIMIT, Replier, replier, run

from dragoman.dialects.memo01.window import Window
from dragoman.transports.base import Sent
from dragoman.transports.nng import NngRequester, RequestWindow


class Requester:
    """A requester and a way to wait for its answers."""

    def __init__(self, requester: NngRequester, woken: asyncio.Event) -> None:
        self.requester = requester
        self.woken = woken
        self.drained: list[list[bytes]] = []

    def send(self, *frames: bytes) -> Sent:
        return self.requester.send(b"", list(frames))

    async def take(self, many: int) -> list[list[bytes]]:
        async with asyncio.timeout(LIMIT):
            while len(self.drained) < many:
                await self.woken.wait()
                self.woken.clear()
                self.drained += [frames for _, frames in self.requester.drain(3)]
        taken, self.drained = self.drained[:many], self.drained[many:]
        return taken


@asynccontextmanager
async def requester(endpoint: str, gate: RequestWindow | None = None) -> AsyncIterator[Requester]:
    woken = asyncio.Event()
    made = NngRequester(endpoint, gate)
    assert await made.open(woken.set) == endpoint
    try:
        yield Requester(made, woken)
    finally:
        await made.close()


async def echo(broker: Replier, many: int) -> None:
    """Answer so many requests with themselves."""
    for address, frames in await broker.take(many):
        broker.replier.send(address, frames)
    broker.replier.flush()


def test_each_answer_comes_back_with_the_ticket_of_its_request() -> None:
    async def test() -> None:
        async with replier() as broker, requester(broker.endpoint) as client:
            for n in range(20):
                assert client.send(b"t%d" % n, b"m%d" % n) is Sent.YES
            taken = await broker.take(20)
            for address, frames in reversed(taken):
                broker.answer(address, b"re " + frames[0])
            answers = await client.take(20)
            assert sorted(answers) == sorted([b"t%d" % n, b"re m%d" % n] for n in range(20))

    run(test)


def test_a_ticket_may_be_used_again_after_its_answer() -> None:
    async def test() -> None:
        async with replier() as broker, requester(broker.endpoint) as client:
            for n in range(5):
                client.send(b"slot", b"%d" % n)
                await echo(broker, 1)
                assert await client.take(1) == [[b"slot", b"%d" % n]]
            assert len(client.requester._idle) == 1

    run(test)


def test_a_request_without_an_answer_in_time_is_dropped() -> None:
    async def test() -> None:
        async with replier() as broker, requester(broker.endpoint) as client:
            client.send(b"slow", b"x", b"50")
            client.send(b"patient", b"y")
            assert await client.take(1) == [[b"slow"]]
            (_, _), (address, _) = sorted(await broker.take(2), key=lambda item: item[1])
            broker.answer(address, b"at last")
            assert await client.take(1) == [[b"patient", b"at last"]]

    run(test)


def test_the_same_message_on_an_open_ticket_is_the_same_request() -> None:
    async def test() -> None:
        async with replier() as broker, requester(broker.endpoint) as client:
            client.send(b"slot", b"READY")
            client.send(b"slot", b"READY")
            await echo(broker, 1)
            assert await client.take(1) == [[b"slot", b"READY"]]
            client.send(b"slot", b"after")
            ((_, frames),) = await broker.take(1)
            assert frames == [b"after"]

    run(test)


def test_another_message_takes_the_place_of_an_open_one() -> None:
    async def test() -> None:
        async with replier() as broker, requester(broker.endpoint) as client:
            client.send(b"slot", b"old")
            ((old, _),) = await broker.take(1)
            client.send(b"slot", b"new")
            ((new, _),) = await broker.take(1)
            broker.answer(old, b"for the old")
            broker.answer(new, b"for the new")
            assert await client.take(1) == [[b"slot", b"for the new"]]

    run(test)


def test_the_gate_decides_how_many_are_open() -> None:
    async def test() -> None:
        window = Window(start=2, largest=4)
        async with replier() as broker, requester(broker.endpoint, window) as client:
            for n in range(20):
                client.send(b"%d" % n, b"x")
            for expected in (2, 4, 4, 4):
                taken = await broker.take(expected)
                assert window.open == expected
                assert broker.replier.drain(100) == []
                for address, frames in taken:
                    broker.answer(address, frames[0])
                await client.take(expected)

    run(test)


def test_the_window_grows_with_answers_and_shrinks_with_drops() -> None:
    async def test() -> None:
        window = Window(start=2, largest=8)
        async with replier() as broker, requester(broker.endpoint, window) as client:
            for n in range(10):
                client.send(b"%d" % n, b"x")
            for many in (2, 4, 4):
                await echo(broker, many)
                await client.take(many)
            assert window.size == 8
            client.send(b"lost", b"x", b"20")
            assert await client.take(1) == [[b"lost"]]
            assert (window.size, window.open) == (4, 0)

    run(test)


def test_requests_wait_for_a_broker_that_is_not_there_yet() -> None:
    async def test() -> None:
        async with replier() as broker:
            endpoint = broker.endpoint
        async with requester(endpoint) as client:
            client.send(b"t", b"early")
            async with replier(endpoint) as broker:
                await echo(broker, 1)
                assert await client.take(1) == [[b"t", b"early"]]

    run(test)


def test_an_open_request_is_sent_again_after_the_broker_has_restarted() -> None:
    async def test() -> None:
        async with replier() as broker, requester(broker.endpoint) as client:
            client.send(b"t", b"x")
            await broker.take(1)
            await broker.replier.close()
            async with replier(broker.endpoint) as another:
                await echo(another, 1)
                assert await client.take(1) == [[b"t", b"x"]]

    run(test)


def test_what_is_open_at_the_close_is_given_up_and_nothing_is_sent_after() -> None:
    async def test() -> None:
        window = Window()
        async with replier() as broker, requester(broker.endpoint, window) as client:
            client.send(b"t", b"x")
            await broker.take(1)
            client.send(b"u", b"not even begun")
            await client.requester.close()
            assert window.open == 0
            assert client.send(b"u", b"x") is Sent.GONE
            assert client.requester.drain(10) == []

    run(test)


def test_a_request_replaced_before_it_began_leaves_the_gate_as_it_was() -> None:
    async def test() -> None:
        window = Window()
        async with replier() as broker, requester(broker.endpoint, window) as client:
            client.send(b"slot", b"old")
            client.send(b"slot", b"new")
            await echo(broker, 1)
            assert await client.take(1) == [[b"slot", b"new"]]
            assert window.open == 0

    run(test)
