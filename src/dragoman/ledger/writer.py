"""The one thread that writes: joins the batches that wait into one commit, calls in between.

It knows nothing of SQL. While a commit is under way, which is mostly waiting for the disk, new
batches gather; the next commit takes them all. So the disk is synced once for many appends
under load, and at once when there is only one.
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

#: Rows in one commit at most, so that the first to come does not wait for too many others.
_GROUP_ROWS: Final = 20_000


class Batch:
    """Rows and bodies that become durable together, and the append that waits for them."""

    __slots__ = ("bodies", "chain", "last", "rows", "waiter")

    def __init__(self, rows: list[Row], bodies: list[Row], last: int, chain: int) -> None:
        self.rows = rows
        self.bodies = bodies
        self.last = last  #: sequence number of its last record
        self.chain = chain  #: checksum of its last record
        self.waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class Writer:
    """Runs `commit(batches)` and single calls, in the order they came, on a thread of its own.

    When a commit raises, its batches and all that wait behind it fail with that error, because
    they no longer follow what is durable; `withdrawn` is called, under the lock, before that.
    """

    def __init__(
        self, commit: Callable[[list[Batch]], None], withdrawn: Callable[[], None]
    ) -> None:
        self.lock = Condition()  #: held while numbering and submitting a batch
        self._commit = commit
        self._withdrawn = withdrawn
        self._waiting: deque[Batch | Callable[[], None]] = deque()
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Put a batch in line."""
        self._put(batch)

    def call(self, function: Callable[[], T]) -> "Future[T]":
        """Put a call in line; it runs between two commits."""
        future: Future[T] = Future()
        self._put(lambda: _settle(future, function))
        return future

    def stop(self) -> None:
        """Finish what is in line, then end; returns when the thread has ended."""
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
        """Wait for work: a call, or all batches up to the next call."""
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
        except Exception as error:  # whatever it was, those who wait must hear of it
            with self.lock:
                behind = [item for item in self._waiting if isinstance(item, Batch)]
                calls = [item for item in self._waiting if not isinstance(item, Batch)]
                self._waiting = deque(calls)
                self._withdrawn()
            _answer(group + behind, error)
        else:
            _answer(group, None)


def _settle(future: "Future[T]", function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except Exception as error:  # it belongs to the caller, who is waiting for the future
        future.set_exception(error)


def _answer(batches: list[Batch], error: Exception | None) -> None:
    """Wake the appends that wait, each on its own event loop."""
    by_loop: dict[Any, list[Batch]] = {}
    for batch in batches:
        by_loop.setdefault(batch.waiter.get_loop(), []).append(batch)
    for loop, group in by_loop.items():
        with suppress(RuntimeError):  # a loop that is closed has nobody left to be told
            loop.call_soon_threadsafe(_wake, group, error)


def _wake(batches: list[Batch], error: Exception | None) -> None:
    for batch in batches:
        if batch.waiter.done():  # its append was cancelled
            continue
        if error is None:
            batch.waiter.set_result(batch.last)
        else:
            batch.waiter.set_exception(error)
