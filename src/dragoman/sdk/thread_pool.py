"""Threads that run tasks. Daemons, so that a worker told twice to stop can leave at once."""

import queue
import threading
from collections.abc import Callable


class ThreadPool:
    """A fixed number of threads and the work that waits for them."""

    def __init__(self, size: int, name: str) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name} {i}", daemon=True) for i in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` as soon as a thread is free. It must not raise."""
        self._work.put(work)

    def close(self) -> None:
        """Let the threads end when their work is done; do not wait for them."""
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
