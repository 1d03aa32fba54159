"""Threads that run tasks. They are daemons: a worker that is stopped twice exits at once."""

import queue
import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger("dragoman.worker")


class ThreadPool:
    """A fixed number of threads with one queue."""

    def __init__(self, size: int, name: str) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name} {i}", daemon=True) for i in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` when a thread is free."""
        self._work.put(work)

    def close(self) -> None:
        """End each thread after its queued work; do not wait for it."""
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:
                # The pool keeps its size: a dead thread would leave jobs queued for ever.
                log.exception("work of a thread raised", thread=threading.current_thread().name)
