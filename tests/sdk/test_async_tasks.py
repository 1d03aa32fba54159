"""The event loop that async tasks share."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from dragoman.sdk.async_tasks import AsyncTasks


@pytest.fixture
def tasks() -> Iterator[AsyncTasks]:
    running = AsyncTasks(2, "test")
    yield running
    running.close()


def test_coroutines_share_one_loop_and_run_side_by_side(tasks: AsyncTasks) -> None:
    loops: set[object] = set()
    both = threading.Barrier(3)
    met = asyncio.Event()
    arrived = 0

    async def meet() -> None:
        nonlocal arrived
        loops.add(asyncio.get_running_loop())
        arrived += 1
        if arrived == 2:
            met.set()
        await met.wait()
        await asyncio.to_thread(both.wait, 15)

    tasks.submit(meet)
    tasks.submit(meet)
    both.wait(15)
    assert len(loops) == 1


def test_no_more_than_the_concurrency_run_at_a_time(tasks: AsyncTasks) -> None:
    running = most = 0
    submitted, done = threading.Event(), threading.Semaphore(0)

    async def one() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.to_thread(submitted.wait, 15)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        done.release()

    for _ in range(6):
        tasks.submit(one)
    submitted.set()
    assert all(done.acquire(timeout=15) for _ in range(6))
    assert most == 2


def test_a_coroutine_that_raises_does_not_end_the_loop(tasks: AsyncTasks) -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def answer() -> int:
        return 42

    tasks.submit(fail)
    assert tasks.run(answer()) == 42


def test_a_job_that_waits_lends_its_place_and_no_more_than_one(tasks: AsyncTasks) -> None:
    running = most = 0
    go_on, done = threading.Event(), threading.Semaphore(0)

    async def waiter() -> None:
        with tasks.lend("a"), tasks.lend("a"):
            await asyncio.to_thread(go_on.wait, 15)
        done.release()

    async def one() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.release()

    tasks.submit(waiter)
    for _ in range(6):
        tasks.submit(one)
    assert all(done.acquire(timeout=15) for _ in range(6))
    assert most == 2
    go_on.set()
    assert done.acquire(timeout=15)
    for _ in range(6):
        tasks.submit(one)
    assert all(done.acquire(timeout=15) for _ in range(6))
    assert most == 2


def test_what_still_runs_at_the_end_is_cancelled() -> None:
    tasks = AsyncTasks(1, "test")
    started, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    tasks.submit(wait)
    assert started.wait(15)
    tasks.close()
    assert cancelled.is_set()
    tasks.submit(wait)
