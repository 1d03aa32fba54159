"""A worker's connection to its fork server."""

import asyncio
import os
import signal

import pytest

from dragoman.sdk.fork_client import ForkClient

pytestmark = pytest.mark.process


def test_processes_start_and_their_ends_are_heard_of() -> None:
    async def run() -> None:
        ended: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        started: asyncio.Queue[int] = asyncio.Queue()
        client = ForkClient(lambda pid, status: ended.put_nowait((pid, status)), lambda: None)
        await client.open()
        pipes = [client.fork(started.put_nowait) for _ in range(3)]
        pids = [await asyncio.wait_for(started.get(), 20) for _ in pipes]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        found = [await asyncio.wait_for(ended.get(), 20) for _ in pipes]
        assert sorted(found) == sorted((pid, signal.SIGKILL) for pid in pids)
        for pipe in pipes:
            pipe.close()
        await client.close()
        assert not client.is_open

    asyncio.run(run())


def test_the_end_of_the_server_is_heard_of_and_it_can_be_started_again() -> None:
    async def run() -> None:
        lost = asyncio.Event()
        started: asyncio.Queue[int] = asyncio.Queue()
        client = ForkClient(lambda pid, status: None, lost.set)
        await client.open()
        assert client._process is not None
        client._process.kill()
        await asyncio.wait_for(lost.wait(), 20)
        assert not client.is_open
        await client.close()
        await client.open()
        client.fork(started.put_nowait).close()
        await asyncio.wait_for(started.get(), 20)
        await client.close()

    asyncio.run(run())
