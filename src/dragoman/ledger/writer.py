"""The writer thread: commits queued batches in groups, and runs calls between commits.

It knows nothing of SQL. New batches queue up during a commit, which mostly waits for the disk; the
next commit takes them all. So under load one sync serves many appends, and a single append is
synced immediately.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Condition, Thread
from typing import Any, Final, TypeVar

from dragoman.ledger.base import LedgerError
from dragoman.ledger.rows import Row

T = TypeVar("T")
#: A row, its checksum, the checksum of its body if it has one, and its `encoded` bytes.
NewRow = tuple[Row, int, int | None, bytes]

#: Rows in one commit at most; bounds how long the first batch waits.
_GROUP_ROWS: Final = 20_000


class Batch:
    """Rows and bodies of one append, and the future that it waits for."""

    __slots__ = ("bodies", "chain", "last", "rows", "waiter")

    def __init__(self, rows: list[NewRow], bodies: list[Row], last: int, chain: int) -> None:
        self.rows = rows
        self.bodies = bodies
        self.last = last  #: sequence number of its last record
        self.chain = chain  #: checksum of its last record
        self.waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class Writer:
    """Runs `commit(batches)` and single calls on its own thread, in order of arrival.

    If a commit raises, its batches and all batches behind it fail with that error, because they no
    longer follow what is durable. Before that, `on_failure` is called under the lock.
    """

    def __init__(
        self, commit: Callable[[list[Batch]], None], on_failure: Callable[[], None]
    ) -> None:
        self.lock = Condition()  #: held while numbering and submitting a batch
        self._commit = commit
        self._on_failure = on_failure
        self._waiting: deque[Batch | Callable[[], None]] = deque()
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Queue a batch."""
        self._put(batch)

    def call(self, function: Callable[[], T]) -> "Future[T]":
        """Queue a call; it runs between two commits."""
        future: Future[T] = Future()
        self._put(lambda: _settle(future, function))
        return future

    def stop(self) -> None:
        """Finish what is queued; return when the thread has ended."""
        with self.lock:
            self._is_stopping = True
            self.lock.notify()
        self._thread.join()

    def _put(self, item: Batch | Callable[[], None]) -> None:
        with self.lock:
            if self._is_stopping:
                raise LedgerError("the ledger is closed")
            self._waiting.append(item)
            self.lock.notify()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            if isinstance(item, list):
                self._write(item)
            else:
                item()

    def _next(self) -> list[Batch] | Callable[[], None] | None:
        """Wait for the next call, or for all batches up to the next call."""
        with self.lock:
            self.lock.wait_for(lambda: self._waiting or self._is_stopping)
            if not self._waiting:
                return None
            item = self._waiting.popleft()
            if not isinstance(item, Batch):
                return item
            group, size = [item], len(item.rows)
            while self._waiting and size < _GROUP_ROWS:
                following = self._waiting[0]
                if not isinstance(following, Batch):
                    break
                group.append(following)
                size += len(following.rows)
                self._waiting.popleft()
            return group

    def _write(self, group: list[Batch]) -> None:
        try:
            self._commit(group)
        except Exception as error:  # any error must reach the appends that wait
            with self.lock:
                behind = [item for item in self._waiting if isinstance(item, Batch)]
                calls = [item for item in self._waiting if not isinstance(item, Batch)]
                self._waiting = deque(calls)
                self._on_failure()
            _resolve(group + behind, error)
        else:
            _resolve(group, None)


def _settle(future: "Future[T]", function: Callable[[], T]) -> None:
    # A caller may give up, as retention does at a stop. From here on it cannot cancel the future.
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except Exception as error:  # the caller gets it from the future
        future.set_exception(error)


def _resolve(batches: list[Batch], error: Exception | None) -> None:
    """Resolve the waiting appends, each on its own event loop."""
    by_loop: dict[Any, list[Batch]] = {}
    for batch in batches:
        by_loop.setdefault(batch.waiter.get_loop(), []).append(batch)
    for loop, group in by_loop.items():
        with suppress(RuntimeError):  # the event loop is closed, so no append waits
            loop.call_soon_threadsafe(_resolve_all, group, error)


def _resolve_all(batches: list[Batch], error: Exception | None) -> None:
    for batch in batches:
        if batch.waiter.done():  # its append was cancelled
            continue
        if error is None:
            batch.waiter.set_result(batch.last)
        else:
            batch.waiter.set_exception(error)
