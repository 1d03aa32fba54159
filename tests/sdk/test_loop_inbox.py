"""What threads have for a worker's loop."""

import asyncio
import threading

from dragoman.sdk.loop_inbox import LoopInbox


def test_work_of_threads_runs_in_the_loop_in_its_order() -> None:
    async def run() -> None:
        inbox = LoopInbox()
        inbox.attach()
        done = asyncio.Event()
        ran: list[tuple[int, bool]] = []
        here = threading.get_ident()

        def put_all() -> None:
            for n in range(100):
                inbox.put(lambda n=n: ran.append((n, threading.get_ident() == here)))  # type: ignore[misc]
            inbox.put(done.set)

        await asyncio.to_thread(put_all)
        await asyncio.wait_for(done.wait(), 15)
        assert ran == [(n, True) for n in range(100)]

    asyncio.run(run())


def test_work_that_puts_work_is_not_forgotten() -> None:
    async def run() -> None:
        inbox = LoopInbox()
        inbox.attach()
        done = asyncio.Event()
        inbox.put(lambda: inbox.put(done.set))
        await asyncio.wait_for(done.wait(), 15)

    asyncio.run(run())


def test_work_can_wait() -> None:
    async def run() -> None:
        inbox = LoopInbox()
        inbox.attach()
        done = asyncio.Event()
        inbox.later(0.0, done.set)
        await asyncio.wait_for(done.wait(), 15)

    asyncio.run(run())


def test_a_closed_loop_ignores_work() -> None:
    inbox = LoopInbox()

    async def attach() -> None:
        inbox.attach()

    asyncio.run(attach())
    inbox.put(lambda: None)
    assert inbox.loop is not None
    assert inbox.loop.is_closed()
