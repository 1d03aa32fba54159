"""The loop: drain, handle, append, then send.

One batch is everything that has arrived. Its records go to the ledger in one append; its strict
sends leave only when they are durable, its relaxed ones at once. While a batch is being written the
next one is already handled, and written together with whatever else has come up by then.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendReply, SendStatus
from dragoman.core.events import Event, JobSubmitted, Noted, TimeAdvanced
from dragoman.dialects.base import Send, Subscribed
from dragoman.ledger.base import Entry, Ledger, LedgerFull
from dragoman.server.archive import Archive
from dragoman.server.clock import Clock
from dragoman.server.feed import EventFeed
from dragoman.server.links import Link, Links
from dragoman.server.service_terms import ServiceTerms

log = structlog.get_logger("dragoman.loop")

#: Messages taken from one link before the next one has its turn.
DRAIN_LIMIT: Final = 1000
#: Records that may wait for the disk before no more input is taken in.
WAITING_LIMIT: Final = 50_000
#: How long records that nobody waits for may wait for others to be written with, in seconds.
RELAXED_DELAY: Final = 0.005
#: How long to wait before a full disk is tried again.
RETRY_AFTER: Final = 1.0

#: A send that waits for the disk: an effect, or a side's own answer with its link.
Waiting = Effect | tuple[Link, Send]


def _never(_seconds: float, _call: Callable[[], None]) -> None:
    """Stand in for a timer while nothing runs: `run` writes what it finds."""


class Loop:
    """Runs one broker on its links until it is told to stop."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger,
        links: Links,
        clock: Clock,
        policies: ServiceTerms | None = None,
    ) -> None:
        self.broker = broker
        self.ledger = ledger
        self.links = links
        self.clock = clock
        self.policies = policies or ServiceTerms({})
        self.archive = Archive(ledger)
        self.feed = EventFeed(ledger, links)
        #: Replies of these services are completed on their way out with what no record may have.
        self.reveal: dict[str, Callable[[SendReply], SendReply]] = {}
        #: Told of every batch that is durable.
        self.listeners: list[Callable[[Sequence[Entry]], None]] = []
        self.is_stopping = False
        #: Records that are handled and not yet durable, and the sends that wait for them.
        self._entries: list[Entry] = []
        self._waiting: deque[Waiting] = deque()
        self._is_writing = False
        self._followups: list[Event] = []
        self._to_write = asyncio.Event()
        #: Set while records that nobody waits for gather company.
        self._relaxed_timer: asyncio.TimerHandle | None = None
        self._later: Callable[[float, Callable[[], None]], asyncio.TimerHandle | None] = _never
        self._written = asyncio.Event()
        self._error: BaseException | None = None
        #: Until when the loop sleeps if nothing arrives; None: for ever.
        self._wakes_at: float | None = None

    def stop(self) -> None:
        """Let `run` end after the batch at hand."""
        self.is_stopping = True
        self.links.wake()

    def submit(self, event: Event) -> None:
        """Let the broker handle an event of the server's own, in its next turn."""
        self._followups.append(event)
        self.links.wake()

    async def run(self, first: Iterable[Effect] = ()) -> None:
        """Serve until stopped; everything handled is written before this returns."""
        self._later = asyncio.get_running_loop().call_later
        writer = asyncio.create_task(self._write_all(), name="dragoman ledger writer")
        try:
            self._carry_out(first, self.clock.now())
            self._to_write.set()
            while not self.is_stopping and self._error is None:
                await self.links.traffic(self._until_due())
                self.turn()
                await self._back_pressure()
        finally:
            self.is_stopping = True
            self._to_write.set()
            await writer
        if self._error is not None:
            raise self._error

    def turn(self) -> None:
        """Handle everything that has arrived and everything that is due."""
        now = self.clock.now()
        effects: list[Effect] = []
        handle = self.broker.handle
        followups, self._followups = self._followups, []
        for event in followups:
            effects += handle(event, now)
        for link in self.links.by_name.values():
            for item in link.receive(DRAIN_LIMIT, now):
                self._take(link, item, effects, now)
        effects += handle(TimeAdvanced(), now)
        for link in self.links.by_name.values():
            due = link.side.next_deadline()
            if due is not None and due <= now:
                for item in link.side.advance(now):
                    self._take(link, item, effects, now)
        self._carry_out(effects, now)

    def _take(
        self, link: Link, item: Event | Send | Subscribed, effects: list[Effect], now: float
    ) -> None:
        """Take one thing a side said: an event, its own answer, or a subscription."""
        kind = type(item)
        if kind is Send:
            if item.is_strict:  # type: ignore[union-attr]
                # It promises what this batch records, so it goes behind all of it.
                self._carry_out(effects, now)
                effects.clear()
                self._waiting.append((link, item))  # type: ignore[arg-type]
                self._to_write.set()
            else:
                link.send(item)  # type: ignore[arg-type]
        elif kind is Subscribed:
            self.feed.subscribe(link, item)  # type: ignore[arg-type]
        else:
            if kind is JobSubmitted and self.policies:
                item = self.policies.apply(item)  # type: ignore[arg-type]
            elif kind is Noted and self.links.rejections.is_over_limit(item, now):  # type: ignore[arg-type]
                return
            effects += self.broker.handle(item, now)  # type: ignore[arg-type]

    def _carry_out(self, effects: Iterable[Effect], now: float) -> None:
        """Put records and strict sends in line for the disk; send the rest."""
        for effect in effects:
            if type(effect) is Append:
                self._entries.append(Entry(effect.record, effect.body))
                if effect.body is not None:
                    self.archive.hold(effect.record.seq, effect.body)
            elif getattr(effect, "is_strict", False) and self._has_unwritten:
                self._waiting.append(effect)
            else:
                self._send(effect, now)
        self._ask_to_write()
        self.links.flush()

    def _ask_to_write(self) -> None:
        """Have what is in line written: at once if somebody waits for it, soon otherwise.

        Each commit costs an fsync and a change of threads, so records without a waiter share one.
        """
        if self._waiting or len(self._entries) > DRAIN_LIMIT or self.is_stopping:
            self._to_write.set()
        elif self._entries and self._relaxed_timer is None and not self._is_writing:
            self._relaxed_timer = self._later(RELAXED_DELAY, self._to_write.set)

    @property
    def _has_unwritten(self) -> bool:
        """Whether anything handled so far is not durable, or waits for what is not."""
        return bool(self._is_writing or self._entries or self._waiting)

    def _send(self, effect: Effect, now: float) -> None:
        if type(effect) is SendStatus:
            effect = self.archive.complete(effect)
        elif type(effect) is SendReply:
            if effect.seq:
                effect = self.archive.with_body(effect)
            if effect.service in self.reveal:
                effect = self.reveal[effect.service](effect)
        failed = self.links.render(effect, now)
        if failed:
            self._followups += failed
            self.links.wake()

    def _until_due(self) -> float | None:
        """How long nothing is due, in seconds."""
        if self._followups:
            return 0.0
        found = [self.broker.next_deadline(), self.links.next_deadline(), self.feed.next_turn()]
        self._wakes_at = at = min((t for t in found if t is not None), default=None)
        return None if at is None else max(0.0, at - self.clock.now())

    def _wake_in_time(self) -> None:
        """Let the loop look at the clock again if a side has set itself an earlier deadline."""
        at = self.links.next_deadline()
        if at is not None and (self._wakes_at is None or at < self._wakes_at):
            self.links.wake()

    async def _back_pressure(self) -> None:
        """Take no more in while too much waits for the disk."""
        while len(self._entries) > WAITING_LIMIT and self._error is None:
            self._written.clear()
            await self._written.wait()

    async def _write_all(self) -> None:
        """Write what is in line, again and again, then send what waited for it."""
        while self._entries or self._waiting or not self.is_stopping:
            await self._to_write.wait()
            self._to_write.clear()
            if self._relaxed_timer is not None:
                self._relaxed_timer.cancel()
                self._relaxed_timer = None
            try:
                await self._write_once()
            except BaseException as error:
                self._error = error
                self._written.set()
                self.links.wake()
                return
            self._ask_to_write()

    async def _write_once(self) -> None:
        entries, self._entries = self._entries, []
        waiting, self._waiting = self._waiting, deque()
        if entries:
            self._is_writing = True
            await self._append(entries)
            self._is_writing = False
        now = self.clock.now()
        for item in waiting:
            if type(item) is tuple:
                item[0].send(item[1])
            else:
                self._send(item, now)  # type: ignore[arg-type]
        if waiting:
            self._wake_in_time()
        self.feed.publish(entries)
        for listen in self.listeners:
            listen(entries)
        self.archive.release(entries)
        self.links.flush()
        self._written.set()

    async def _append(self, entries: list[Entry]) -> None:
        """Write a batch; on a full disk nothing leaves and it is tried again until it fits."""
        while True:
            try:
                await self.ledger.append(entries)
                return
            except LedgerFull as error:
                log.error(
                    "the ledger cannot be written; nothing is acknowledged until it can",
                    error=str(error),
                    records=len(entries),
                    hint="free some space on the ledger's disk",
                )
                if self.is_stopping:
                    raise
                await asyncio.sleep(RETRY_AFTER)
