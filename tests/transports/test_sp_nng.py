"""The SP replier against NNG itself."""

import asyncio
import os
from pathlib import Path

import pynng
import pytest
from tests.transports.sp_peers import replier, run


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:0", "tcp://[::1]:0", "ipc://{}/s"])
def test_nng_contexts_on_one_socket_each_get_their_own_answer(
    endpoint: str, tmp_path: Path
) -> None:
    async def exchange(requester: pynng.Req0, n: int) -> None:
        with requester.new_context() as context:
            for turn in range(3):
                body = b"%d.%d" % (n, turn)
                await context.asend(body)
                assert await context.arecv() == body

    async def test() -> None:
        async with replier(endpoint.format(tmp_path)) as broker:
            echo = asyncio.create_task(broker.echo())
            with pynng.Req0(dial=broker.endpoint, block_on_dial=False) as requester:
                await asyncio.gather(*(exchange(requester, n) for n in range(50)))
            echo.cancel()

    run(test)


def test_nngs_resends_have_the_same_address() -> None:
    async def test() -> None:
        async with replier() as broker:
            with pynng.Req0(
                dial=broker.endpoint, block_on_dial=False, resend_time=100
            ) as requester:
                await requester.asend(b"once")
                (first, _), (again, _) = await broker.take(2)
                assert first == again
                broker.answer(again, b"done")
                assert await requester.arecv() == b"done"

    run(test)


def test_nng_sends_an_open_request_again_after_a_reconnect() -> None:
    async def test() -> None:
        async with replier() as broker:
            options = {"reconnect_time_min": 10, "reconnect_time_max": 10}
            with pynng.Req0(dial=broker.endpoint, block_on_dial=False, **options) as requester:
                await requester.asend(b"once")
                ((first, _),) = await broker.take(1)
                for connection in list(broker.replier._connections.values()):
                    connection.transport.abort()
                end, (again, frames) = await broker.take(2)
                assert end == (first[:8], [])
                assert frames == [b"once"]
                assert again[8:] == first[8:]
                broker.answer(again, b"done")
                assert await requester.arecv() == b"done"

    run(test)


def test_nng_reads_megabytes_from_us_and_we_from_it() -> None:
    async def test() -> None:
        body = os.urandom(4 * 1024 * 1024)
        async with replier() as broker:
            echo = asyncio.create_task(broker.echo())
            with pynng.Req0(
                dial=broker.endpoint, block_on_dial=False, recv_max_size=2 * len(body)
            ) as requester:
                await requester.asend(body)
                assert await requester.arecv() == body
            echo.cancel()

    run(test)
