"""The writer thread: group commit, order, failure, stopping."""

import asyncio
from threading import Event

import pytest
from tests.ledger.entries import run

from dragoman.ledger.base import LedgerError, LedgerFull
from dragoman.ledger.writer import Batch, Writer


class Disk:
    """Simulates the disk: blocks a commit until it is released, and notes its batches."""

    def __init__(self) -> None:
        self.begun = Event()
        self.go = Event()
        self.commits: list[list[int]] = []
        self.error: Exception | None = None
        self.withdrawals = 0

    def commit(self, batches: list[Batch]) -> None:
        self.begun.set()
        self.go.wait()
        if self.error is not None:
            raise self.error
        self.commits.append([batch.last for batch in batches])

    def on_failure(self) -> None:
        self.withdrawals += 1


def batch(last: int, rows: int = 1) -> Batch:
    return Batch([((last,), 0, None, b"")] * rows, [], last, 0)


def test_batches_that_come_during_a_commit_are_joined_into_the_next() -> None:
    async def story() -> list[list[int]]:
        disk = Disk()
        writer = Writer(disk.commit, disk.on_failure)
        batches = [batch(n) for n in range(1, 6)]
        writer.submit(batches[0])
        await asyncio.to_thread(disk.begun.wait)
        for each in batches[1:]:
            writer.submit(each)
        disk.go.set()
        assert await asyncio.gather(*(each.waiter for each in batches)) == [1, 2, 3, 4, 5]
        await asyncio.to_thread(writer.stop)
        return disk.commits

    assert run(story()) == [[1], [2, 3, 4, 5]]


def test_a_commit_is_bounded() -> None:
    async def story() -> list[list[int]]:
        disk = Disk()
        writer = Writer(disk.commit, disk.on_failure)
        batches = [batch(n, rows=15_000) for n in range(1, 6)]
        writer.submit(batches[0])
        await asyncio.to_thread(disk.begun.wait)
        for each in batches[1:]:
            writer.submit(each)
        disk.go.set()
        await asyncio.gather(*(each.waiter for each in batches))
        await asyncio.to_thread(writer.stop)
        return disk.commits

    assert run(story()) == [[1], [2, 3], [4, 5]]


def test_a_call_runs_between_the_batches_around_it() -> None:
    async def story() -> list[list[int]]:
        disk = Disk()
        writer = Writer(disk.commit, disk.on_failure)
        first, second = batch(1), batch(2)
        with writer.lock:
            writer.submit(first)
            called = writer.call(lambda: disk.commits.append([-1]))
            writer.submit(second)
        disk.go.set()
        await asyncio.gather(first.waiter, second.waiter, asyncio.wrap_future(called))
        await asyncio.to_thread(writer.stop)
        return disk.commits

    assert run(story()) == [[1], [-1], [2]]


def test_a_failed_commit_fails_what_waits_behind_it_but_not_calls() -> None:
    async def story() -> None:
        disk = Disk()
        writer = Writer(disk.commit, disk.on_failure)
        first, behind = batch(1), batch(2)
        writer.submit(first)
        await asyncio.to_thread(disk.begun.wait)
        writer.submit(behind)
        called = writer.call(lambda: 42)
        disk.error = LedgerFull("full")
        disk.go.set()
        for each in (first, behind):
            with pytest.raises(LedgerFull, match="full"):
                await each.waiter
        assert await asyncio.wrap_future(called) == 42
        assert (disk.commits, disk.withdrawals) == ([], 1)
        disk.error = None
        again = batch(1)
        writer.submit(again)
        assert await again.waiter == 1
        await asyncio.to_thread(writer.stop)

    run(story())


def test_the_error_of_a_call_reaches_its_caller() -> None:
    disk = Disk()
    writer = Writer(disk.commit, disk.on_failure)
    with pytest.raises(ZeroDivisionError):
        writer.call(lambda: 1 // 0).result()
    writer.stop()


def test_stopping_finishes_what_is_in_line_and_refuses_more() -> None:
    async def story() -> None:
        disk = Disk()
        writer = Writer(disk.commit, disk.on_failure)
        last = batch(1)
        writer.submit(last)
        disk.go.set()
        await asyncio.to_thread(writer.stop)
        assert await last.waiter == 1
        with pytest.raises(LedgerError, match="closed"):
            writer.submit(batch(2))
        with pytest.raises(LedgerError, match="closed"):
            writer.call(lambda: None)

    run(story())


def test_an_append_that_was_cancelled_is_written_all_the_same() -> None:
    async def story() -> list[list[int]]:
        disk = Disk()
        writer = Writer(disk.commit, disk.on_failure)
        first, second = batch(1), batch(2)
        with writer.lock:
            writer.submit(first)
            writer.submit(second)
        first.waiter.cancel()
        disk.go.set()
        assert await second.waiter == 2
        await asyncio.to_thread(writer.stop)
        return disk.commits

    assert run(story()) == [[1, 2]]


def test_a_loop_that_is_gone_does_not_stop_the_writer() -> None:
    disk = Disk()
    writer = Writer(disk.commit, disk.on_failure)

    async def leave() -> None:
        writer.submit(batch(1))

    run(leave())
    disk.go.set()
    assert writer.call(lambda: "alive").result() == "alive"
    writer.stop()


def test_a_call_that_is_given_up_while_it_runs_does_not_end_the_writer() -> None:
    disk, begun, go = Disk(), Event(), Event()
    writer = Writer(disk.commit, disk.on_failure)

    def slow() -> None:
        begun.set()
        go.wait()

    running, waiting = writer.call(slow), writer.call(lambda: 1)
    begun.wait()
    running.cancel()
    waiting.cancel()
    go.set()
    assert writer.call(lambda: 7).result(timeout=10) == 7
    assert waiting.cancelled()
    writer.stop()
