"""One NNG connection at a time: the next address when it is lost, or when the caller says so."""

import asyncio
import contextlib

import pytest
from tests.transports.sp_peers import LIMIT, Replier, replier, run

from dragoman.transports.nng import NngRequester


async def ask(requester: NngRequester, woken: asyncio.Event, ticket: bytes) -> bytes:
    """Send a request and wait for its answer."""
    requester.send(b"", [ticket, b"?" + ticket])
    async with asyncio.timeout(LIMIT):
        while True:
            for _, frames in requester.drain(10):
                return frames[1]
            woken.clear()
            await woken.wait()


async def answer_with(broker: Replier, text: bytes) -> None:
    while True:
        for address, _ in await broker.take(1):
            broker.answer(address, text)


@pytest.mark.parametrize("is_told", [True, False])
def test_the_next_address_answers(is_told: bool) -> None:
    async def test() -> None:
        woken = asyncio.Event()
        async with replier() as first, replier() as second:
            both = f"{first.endpoint},{second.endpoint.removeprefix('tcp://')}"
            made = NngRequester(both)
            await made.open(woken.set)
            answers = [
                asyncio.create_task(answer_with(first, b"first")),
                asyncio.create_task(answer_with(second, b"second")),
            ]
            assert await ask(made, woken, b"1") == b"first"
            if is_told:
                made.move_on()
            else:
                await first.replier.close()
            while await ask(made, woken, b"2") != b"second":
                pass
            await made.close()
            for task in answers:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    run(test)


def test_an_address_where_nothing_listens_is_left() -> None:
    async def test() -> None:
        woken = asyncio.Event()
        async with replier() as broker:
            made = NngRequester(f"tcp://127.0.0.1:1,{broker.endpoint.removeprefix('tcp://')}")
            await made.open(woken.set)
            task = asyncio.create_task(answer_with(broker, b"yes"))
            assert await ask(made, woken, b"1") == b"yes"
            await made.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(test)
