"""The loop: drives the engine with real time, real links and a real ledger.

What is handled when, and what may leave when, is decided in `engine`. Here is what waits: for
traffic, for deadlines, for the disk. While a batch is written, turns go on; their records are
written together as soon as the disk is free.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from dragoman.core.broker import Broker
from dragoman.core.effects import Effect
from dragoman.core.events import Event
from dragoman.ledger.base import (
    Entry,
    Ledger,
    LedgerTrouble,
    LedgerUnavailable,
    LedgerUnwritable,
)
from dragoman.server.archive import Archive
from dragoman.server.clock import Clock
from dragoman.server.engine import BrokerEngine, Urgency
from dragoman.server.feed import EventFeed
from dragoman.server.health import Health
from dragoman.server.histograms import RECORDS, Histogram
from dragoman.server.links import Links
from dragoman.server.service_terms import ServiceTerms

log = structlog.get_logger("dragoman.loop")

#: Records that may wait for the disk before the loop stops draining links.
WAITING_LIMIT: Final = 50_000
#: How long records that no send waits for may wait to share a commit, in seconds: each commit
#: costs an fsync and a change of threads.
RELAXED_DELAY: Final = 0.005
#: How long to wait before a full disk is tried again, in seconds.
RETRY_AFTER: Final = 1.0
#: The part of the broker that troubles of the ledger are reported for.
LEDGER: Final = "ledger"


class Loop:
    """Runs one broker on its links until `stop` is called."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger,
        links: Links,
        clock: Clock,
        terms: ServiceTerms | None = None,
    ) -> None:
        self.broker = broker
        self.ledger = ledger
        self.links = links
        self.clock = clock
        self.archive = Archive(ledger)
        self.feed = EventFeed(ledger, links)
        self.engine = BrokerEngine(broker, links, self.archive, terms)
        self.engine.subscribe = self.feed.subscribe
        self.engine.listeners.append(self.feed.publish)
        self.reveal = self.engine.reveal
        self.listeners = self.engine.listeners
        self.is_stopping = False
        #: Seconds until an append is durable, and its records.
        self.append_times, self.append_sizes = Histogram(), Histogram(RECORDS)
        self._to_write = asyncio.Event()
        self._written = asyncio.Event()
        #: Whether records that no send waits for are being delayed.
        self._is_delaying = False
        self.health = Health(clock.now)
        #: Whether a batch that could not be written waits to be tried again.
        self.is_retrying = False
        self._error: BaseException | None = None
        #: Called before each turn; raises if this broker may not act.
        self.require_lead: Callable[[], None] = lambda: None
        #: Until when the loop sleeps if nothing arrives; None: for ever.
        self._wakes_at: float | None = None

    def stop(self) -> None:
        """Let `run` end after the current turn."""
        self.is_stopping = True
        self.links.wake()

    def submit(self, event: Event) -> None:
        """Have the broker handle an event of the server itself in the next turn."""
        self.engine.submit(event)
        self.links.wake()

    def halt(self, error: Exception) -> None:
        """Let `run` raise an error now. What is not sent is dropped, also what need not wait."""
        if self._error is None:
            self._error = error
        self._written.set()
        self.links.wake()

    async def run(self, first: Sequence[Effect] = (), *, is_written: bool = False) -> None:
        """Serve until stopped; everything handled is written before this returns.

        `is_written` tells that the records of `first` are in the ledger already.
        """
        writer = asyncio.create_task(self._write_all(), name="dragoman ledger writer")
        try:
            self.engine.carry_out(first, self.clock.now())
            if is_written and self.engine.begin_write():
                self.engine.end_write(self.clock.now())
            self._request_write()
            while not self.is_stopping and self._error is None:
                await self.links.traffic(self._until_due())
                if not self._may_turn():
                    break
                self.engine.turn(self.clock.now())
                self._request_write()
                await self._back_pressure()
        finally:
            self.is_stopping = True
            self._to_write.set()
            if self._error is not None:
                writer.cancel()
            await asyncio.wait([writer])
        if self._error is not None:
            raise self._error

    def _may_turn(self) -> bool:
        """Tell whether to go on: not after an error, nor if this broker no longer leads."""
        try:
            self.require_lead()
        except Exception as error:  # whatever the cluster raises ends this loop
            self.halt(error)
        return self._error is None

    def _until_due(self) -> float | None:
        """Return how long nothing is due, in seconds; zero or less: something is; None: never."""
        found = (self.engine.next_due(), self.feed.next_turn())
        # Catching up with the ledger has sent events to subscribers.
        self.links.flush()
        self._wakes_at = at = min((t for t in found if t is not None), default=None)
        return None if at is None else at - self.clock.now()

    def _wake_if_due_earlier(self) -> None:
        """Wake the loop if sends from outside a turn made something due before it wakes."""
        at = self.engine.next_due()
        if at is not None and (self._wakes_at is None or at < self._wakes_at):
            self.links.wake()

    async def _back_pressure(self) -> None:
        """Wait while too many records wait for the disk."""
        while self.engine.pending > WAITING_LIMIT and self._error is None:
            self._written.clear()
            await self._written.wait()

    def _request_write(self) -> None:
        """Have the writer write what is pending: now if a send waits for it, else soon."""
        urgency = self.engine.urgency
        if urgency is Urgency.NOW:
            self._to_write.set()
        elif urgency is Urgency.LATER and not self._is_delaying:
            self._is_delaying = True
            asyncio.get_running_loop().call_later(RELAXED_DELAY, self._end_delay)

    def _end_delay(self) -> None:
        self._is_delaying = False
        self._to_write.set()

    async def _write_all(self) -> None:
        """Write what is pending, again and again, until the loop has stopped and all is written."""
        try:
            while not self.is_stopping or self.engine.has_unwritten:
                if not self.is_stopping:
                    await self._to_write.wait()
                self._to_write.clear()
                await self._write_once()
        except BaseException as error:
            self._error = self._error or error
            self._written.set()
            self.links.wake()

    async def _write_once(self) -> None:
        entries = self.engine.begin_write()
        if not entries:
            return
        await self._append(entries)
        self.engine.end_write(self.clock.now())
        self._written.set()
        self._wake_if_due_earlier()
        self._request_write()

    async def _append(self, entries: Sequence[Entry]) -> None:
        """Write a batch, again and again if the disk fails; nothing strict leaves before."""
        while True:
            try:
                started = time.perf_counter()
                await self.ledger.append(entries)
            except (LedgerUnwritable, LedgerUnavailable) as error:
                self.is_retrying = True
                self.ledger_failed(error, records=len(entries))
                if self.is_stopping:
                    raise
                await asyncio.sleep(RETRY_AFTER)
            else:
                self.append_times.observe(time.perf_counter() - started)
                self.append_sizes.observe(len(entries))
                self.is_retrying = False
                self.ledger_works()
                return

    def ledger_failed(self, error: LedgerTrouble, records: int = 0) -> None:
        """Report that the ledger takes no records: in the log, to probes, and to clients."""
        log.error(
            "cannot write the ledger; nothing is acknowledged until it can be written",
            error=str(error),
            records=records,
            hint=error.hint,
        )
        self.health.report(LEDGER, error.summary, f"{error}; {error.hint}", is_blocking=True)
        self.engine.write_failed(error, self.clock.now())
        self.links.wake()

    @property
    def is_ledger_failing(self) -> bool:
        """Whether the ledger takes no records."""
        return self.health.has(LEDGER)

    def ledger_works(self) -> None:
        """Report that the ledger takes records, if it did not before."""
        if self.health.clear(LEDGER):
            log.info("the ledger is writable again")
            self.engine.write_works()
            self.links.wake()
