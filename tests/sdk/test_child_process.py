"""The pipe to a helper process: a child that ends, and one that does not read."""

import asyncio
import os

import pytest

from dragoman.sdk.child_process import ChildProcess

pytestmark = pytest.mark.process


def test_a_child_that_ended_is_noticed_and_writing_to_it_does_no_harm() -> None:
    async def scenario() -> None:
        received: asyncio.Queue[bytes] = asyncio.Queue()
        helper = ChildProcess(received.put_nowait, b"pulse")
        await helper.open("this")
        assert b"Zen of Python" in await received.get()
        # WNOWAIT leaves the exit code for the helper to read.
        await asyncio.to_thread(os.waitid, os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)
        assert not helper.is_alive
        helper.start_pulse()
        helper.write(b"x" * 100_000)
        assert not helper.is_full
        await helper.close()

    asyncio.run(scenario())


def test_a_child_that_does_not_read_makes_the_pipe_full_and_is_killed_at_the_end() -> None:
    async def scenario() -> None:
        helper = ChildProcess(lambda data: None, b"")
        await helper.open("http.server", "0", "--bind", "127.0.0.1")
        assert helper.is_alive
        helper.write(bytes(65 * 1024 * 1024))
        assert helper.is_full
        pid = helper.pid
        await helper.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    asyncio.run(scenario())
