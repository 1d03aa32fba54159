"""Threads that run tasks. They are daemons: a worker that is stopped twice exits at once."""

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

log = structlog.get_logger("dragoman.worker")


def _look_again() -> None:
    """Do nothing: a thread that ran this looks whether it is one too many."""


class ThreadPool:
    """A number of threads with one queue, and one more for each thread that waits."""

    def __init__(self, size: int, name: str) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._name = name
        self._numbers: Final = itertools.count()
        #: Threads that there should be: `size`, and the number of those that wait.
        self._wanted = 0
        self._threads = 0
        self._waiting = threading.local()
        self._want(size)

    def _want(self, more: int) -> None:
        with self._lock:
            self._wanted += more
            missing = self._wanted - self._threads
            self._threads += max(missing, 0)
        for _ in range(missing):
            name = f"{self._name} {next(self._numbers)}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` when a thread is free."""
        self._work.put(work)

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Let another thread take the place of this one, which waits inside the block.

        So tasks that wait for each other's children cannot use up the threads. Inside another
        block of the same thread it does nothing.
        """
        depth = getattr(self._waiting, "depth", 0)
        self._waiting.depth = depth + 1
        try:
            if depth == 0:
                self._want(1)
            yield
        finally:
            self._waiting.depth -= 1
            if self._waiting.depth == 0:
                self._want(-1)
                self._work.put(_look_again)

    def close(self) -> None:
        """End each thread after its queued work; do not wait for it."""
        with self._lock:
            threads = self._threads
        for _ in range(threads):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:
                # The pool keeps its size: a dead thread would leave jobs queued for ever.
                log.exception("work of a thread raised", thread=threading.current_thread().name)
            if self._is_one_too_many():
                return

    def _is_one_too_many(self) -> bool:
        with self._lock:
            is_surplus = self._threads > self._wanted
            self._threads -= is_surplus
            return is_surplus
