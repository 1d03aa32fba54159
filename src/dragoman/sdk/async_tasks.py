"""The event loop that all async tasks of a worker share, in a thread of its own.

It is not the worker's own loop: a task that blocks stops the other async tasks, never heartbeats
and messages.
"""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import structlog

log = structlog.get_logger("dragoman.worker")

#: Seconds that coroutines have to end after they were cancelled.
_CLOSE_WAIT = 2.0


class AsyncTasks:
    """Runs coroutines, at most `concurrency` at a time."""

    def __init__(self, concurrency: int, name: str) -> None:
        self._concurrency = concurrency
        self._name = name
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name=f"{name} async", daemon=True
        )
        self._thread.start()
        self._loop = self._ready.result()

    async def _main(self) -> None:
        self._free = asyncio.Semaphore(self._concurrency)
        self._stop = asyncio.Event()
        #: How often each waiting job has lent its place.
        self._lent: Counter[str] = Counter()
        #: Jobs that run beyond the concurrency, because they have waited.
        self._owed = 0
        self._running: set[asyncio.Task[None]] = set()
        self._ready.set_result(asyncio.get_running_loop())
        # `asyncio.run` cancels what still runs after this.
        await self._stop.wait()

    def submit(self, make: Callable[[], Coroutine[object, None, None]]) -> None:
        """Run a coroutine when fewer than `concurrency` run. Thread-safe."""
        self._call(self._begin, make)

    def _call(self, function: Callable[..., object], *args: object) -> None:
        # RuntimeError: the loop is closed, and its jobs were handed back.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *args)

    def _begin(self, make: Callable[[], Coroutine[object, None, None]]) -> None:
        task = self._loop.create_task(self._run(make))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, make: Callable[[], Coroutine[object, None, None]]) -> None:
        await self._free.acquire()
        try:
            await make()
        except Exception:
            log.exception("an async job raised outside its task", worker=self._name)
        finally:
            self._release()

    def _release(self) -> None:
        """Give a place back, unless a job that went on after its wait needs one."""
        if self._owed:
            self._owed -= 1
        else:
            self._free.release()

    @contextlib.contextmanager
    def lend(self, job: str) -> Iterator[None]:
        """Let another coroutine have the place of this job, which waits inside the block.

        The job goes on at once after the block; the next place that becomes free is its own.
        Blocks of one job that overlap lend one place. Call it on the loop.
        """
        self._lent[job] += 1
        if self._lent[job] == 1:
            self._release()
        try:
            yield
        finally:
            self._lent[job] -= 1
            if not self._lent[job]:
                del self._lent[job]
                self._owed += 1

    def run(self, work: Coroutine[object, None, object], at_most: float | None = None) -> Any:
        """Run a coroutine to its end on the loop; wait in this thread, `at_most` seconds."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(at_most)

    def close(self) -> None:
        """Cancel what runs and end the loop. A task that blocks it is left behind."""
        self._call(self._stop.set)
        self._thread.join(_CLOSE_WAIT)
