"""Messages between a worker and a task process."""

import asyncio
import socket
from typing import Any

import pytest

from dragoman.sdk import process_pipe
from dragoman.sdk.process_pipe import (
    BlockingPipe,
    LoopPipe,
    MessageSplitter,
    MessageTooLarge,
    encode,
)


def test_messages_arrive_whole_however_the_bytes_are_cut() -> None:
    data = encode(("a", 1)) + encode(("b", {1: b"x"}, float("inf"), 1 << 80))
    splitter = MessageSplitter()
    found = [message for byte in data for message in splitter.feed(bytes([byte]))]
    assert found == [("a", 1), ("b", {1: b"x"}, float("inf"), 1 << 80)]


def test_a_message_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pipe, "MAX_MESSAGE", 100)
    with pytest.raises(MessageTooLarge, match="the limit is 100"):
        encode(("x" * 100,))


def test_a_child_that_lost_its_worker_hears_of_it() -> None:
    ours, theirs = socket.socketpair()
    pipe = BlockingPipe(theirs)
    ours.sendall(encode(("run", 1))[:5])
    ours.close()
    with pytest.raises(EOFError):
        pipe.receive()
    theirs.close()


def test_large_messages_pass_both_ways_and_the_end_is_noticed() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        received: asyncio.Queue[Any] = asyncio.Queue()
        closed = asyncio.Event()
        pipe, child = LoopPipe(ours, received.put_nowait, closed.set), BlockingPipe(theirs)
        large = b"x" * 3_000_000
        pipe.send(("run", large))
        assert await asyncio.to_thread(child.receive) == [("run", large)]
        await asyncio.to_thread(child.send, ("done", large))
        assert await received.get() == ("done", large)
        theirs.close()
        await asyncio.wait_for(closed.wait(), 10)
        pipe.send(("nobody", "reads this"))

    asyncio.run(run())


def test_what_a_child_wrote_before_its_end_is_read() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        received: list[Any] = []
        pipe = LoopPipe(ours, received.append, lambda: None)
        BlockingPipe(theirs).send(("done", 1))
        theirs.close()
        pipe.read_rest()
        assert received == [("done", 1)]
        pipe.close()
        pipe.read_rest()

    asyncio.run(run())
