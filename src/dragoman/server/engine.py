"""The engine: drain, handle, write, then send. Without I/O and without a clock.

A batch is everything that one or more turns recorded. Its strict sends leave only when its records
are durable; relaxed sends leave immediately. While one batch is written, the next one collects.

The server (`loop`) and the simulation drive this same class: each calls `turn`, writes what
`begin_write` returns, and calls `end_write` when it is durable.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, Protocol

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendPoll, SendReply, SendStatus, SendWork
from dragoman.core.events import (
    DeliveryFailed,
    Event,
    EventDenied,
    JobSubmitted,
    LedgerBlocked,
    Noted,
    ScheduleTicked,
    TimeAdvanced,
    WorkerJoined,
)
from dragoman.dialects.base import Send, Subscribed
from dragoman.ledger.base import Entry, LedgerError, LedgerTrouble
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId
from dragoman.server.archive import Archive
from dragoman.server.links import Link, Links
from dragoman.server.service_terms import ServiceTerms

#: Messages drained from one link before the next link has its turn. More unwritten records than
#: this are written without delay.
DRAIN_LIMIT: Final = 1000
#: A turn that is later than this shows that the process stood still, or that a turn was slow.
LATE: Final = 0.5
#: The longest time between two turns. A pause shows only as a late turn, so turns must be frequent.
LONGEST_SLEEP: Final = 1.0
#: The longest time without judgement after a late turn. Peers that reconnected meanwhile need a
#: few round trips before they are heard.
LONGEST_HOLD: Final = 3.0
#: How long the ledger may fail before new jobs are refused. Until then their clients wait.
REFUSE_AFTER: Final = 5.0


class Urgency(Enum):
    """How soon the pending batch must be written."""

    NONE = "nothing is pending"
    LATER = "no send waits for these records; they may wait to share a commit"
    NOW = "a send waits for these records, or there are many"


class Ticks(Protocol):
    """The schedules, as the engine sees them."""

    def take_due(self, now: float) -> Sequence[Event]:
        """Return an event for each tick that is due."""
        ...

    def next_at(self) -> float | None:
        """Return when the next tick is due; None: never."""
        ...


class NoTicks:
    """No schedules."""

    def take_due(self, now: float) -> Sequence[Event]:
        """Return nothing."""
        return ()

    def next_at(self) -> float | None:
        """Return None: nothing is ever due."""
        return None


class PendingBatch:
    """Records to be written together, and the sends that wait for them."""

    __slots__ = ("entries", "sends")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        #: Effects, and direct answers of a side with their link.
        self.sends: list[Effect | tuple[Link, Send]] = []


class BrokerEngine:
    """One broker on its links, between two points where a driver does the I/O."""

    def __init__(
        self,
        broker: Broker,
        links: Links,
        archive: Archive,
        terms: ServiceTerms | None = None,
    ) -> None:
        self.broker = broker
        self.links = links
        self.archive = archive
        self.terms = terms or ServiceTerms({})
        #: Why a job may not have a webhook at this URL; the settings decide.
        self.hook_fault: Callable[[str], Fault | None] = lambda url: None
        #: Gets every subscription of a peer.
        self.subscribe: Callable[[Link, Subscribed], None] = lambda link, wish: None
        #: By service: adds to a reply, as it leaves, what no record may contain.
        self.reveal: dict[str, Callable[[SendReply], SendReply]] = {}
        #: Called before a reply is sent: a restored side may have to learn of its request first.
        self.before_send: Callable[[Effect, float], None] = lambda effect, now: None
        #: Called with the entries of every batch that became durable.
        self.listeners: list[Callable[[Sequence[Entry]], None]] = []
        #: Makes the events of schedules that are due.
        self.ticks: Ticks = NoTicks()
        self._events: list[Event] = []
        self._turned_at: float | None = None
        #: When the next turn was due, as `next_due` found last.
        self._due_at: float | None = None
        #: No timer fires before: messages of the time when nobody listened are read first.
        self._judges_from = 0.0
        self._has_judged = True
        self._pending = PendingBatch()
        self._in_flight: PendingBatch | None = None
        #: Since when the ledger takes no records; None: it takes them.
        self._failing_since: float | None = None

    # --- one turn -----------------------------------------------------------------------------

    def submit(self, event: Event) -> None:
        """Have the broker handle an event of the server itself in the next turn."""
        self._events.append(event)

    def turn(self, now: float) -> None:
        """Handle everything that has arrived and everything that is due."""
        self._hold_if_late(now)
        self._turned_at = now
        effects: list[Effect] = []
        events, self._events = self._events, []
        for event in events:
            effects += self._handle(event, now)
        for link in self.links.take_ready():
            self._take_all(link, link.receive(DRAIN_LIMIT, now), effects, now)
        if now >= self._judges_from:
            self._judge(effects, now)
        self.carry_out(effects, now)

    def _judge(self, effects: list[Effect], now: float) -> None:
        """Fire the timers that are due: leases, time limits, the sides' own."""
        self._has_judged = True
        effects += self._handle(TimeAdvanced(), now)
        for event in self.ticks.take_due(now):
            for checked in self._ticked(event):
                effects += self._handle(checked, now)
        for link in self.links.take_due(now):
            self._take_all(link, link.side.advance(now), effects, now)

    def _hold_if_late(self, now: float) -> None:
        """Hold judgement after a late turn: a silent peer may only be unread.

        A hold counts the time in which the broker runs, so another pause makes it longer. Between
        two holds timers fire once, so a broker that is always late still judges.
        """
        late = 0.0 if self._due_at is None else now - self._due_at
        if late <= LATE:
            return
        if self._has_judged:
            self._has_judged = False
            self._judges_from = now + min(late, LONGEST_HOLD)
        else:
            self._judges_from += late

    def next_due(self) -> float | None:
        """Return when the next turn is due if nothing arrives; None before the first turn."""
        found = (self.broker.next_deadline(), self.links.next_deadline(), self.ticks.next_at())
        at = min((at for at in found if at is not None), default=None)
        self._due_at = at = None if at is None else max(at, self._judges_from)
        if self._turned_at is not None:
            wakes_at = self._turned_at + LONGEST_SLEEP
            self._due_at = at = wakes_at if at is None else min(at, wakes_at)
        return 0.0 if self._events or self.links.has_ready else at

    def _handle(self, event: Event, now: float) -> list[Effect]:
        return self.broker.handle(event, now)

    def _take_all(
        self,
        link: Link,
        items: Iterable[Event | Send | Subscribed],
        effects: list[Effect],
        now: float,
    ) -> None:
        """Take what a side returned: events, direct answers, subscriptions."""
        for item in items:
            if isinstance(item, Send):
                if item.is_strict:
                    # It acknowledges what this turn recorded, so it leaves after all of it.
                    self.carry_out(effects, now)
                    effects.clear()
                self._answer(link, item)
            elif isinstance(item, Subscribed):
                self.subscribe(link, item)
            elif isinstance(item, WorkerJoined):
                effects += self._handle(self._as_known(item, effects, now), now)
            elif isinstance(item, JobSubmitted):
                effects += self._handle(self._admitted(item), now)
            elif not (isinstance(item, Noted) and self.links.rejections.is_over_limit(item, now)):
                effects += self._handle(item, now)

    def _ticked(self, event: Event) -> list[Event]:
        """Return a tick, or one without a job, and its refusal, if it must not have its webhook."""
        if not isinstance(event, ScheduleTicked) or event.job is None:
            return [event]
        hook = event.job.terms.webhook
        fault = self.hook_fault(hook) if hook else None
        if fault is None:
            return [event]
        return [replace(event, job=None), EventDenied(event.job, fault, event.job.principal)]

    def _admitted(self, job: JobSubmitted) -> JobSubmitted | EventDenied:
        """Return a submission with its terms, or its refusal if it must not have its webhook."""
        fault = self.hook_fault(job.terms.webhook) if job.terms.webhook else None
        if fault is not None:
            return EventDenied(job, fault, job.principal)
        return self.terms.apply(job) if self.terms else job

    def _as_known(
        self, joined: WorkerJoined, effects: Sequence[Effect], now: float
    ) -> WorkerJoined:
        """Return a join whose report may be believed.

        If it may have waited unread for long, the broker may have dispatched more to that worker
        since. It asks the worker instead. Work that waits for the ledger is not lost either: it
        leaves when its record is written, and no report can name it before.
        """
        if joined.holds is None or joined.worker not in self.broker.state.registry.workers:
            return joined
        if now < self._judges_from:
            return replace(joined, holds=None)
        unsent = self._unsent_to(joined.worker, effects)
        return replace(joined, holds=joined.holds | unsent) if unsent else joined

    def _is_early(self, effect: Effect) -> bool:
        """Whether this asks about work that waits for the ledger, so that it must wait, too."""
        return type(effect) is SendPoll and effect.job in self._unsent_to(effect.worker, ())

    def _unsent_to(self, worker: PeerId, effects: Sequence[Effect]) -> frozenset[JobId]:
        """Return the jobs that were given to a worker and are not sent yet."""
        batches = (self._in_flight, self._pending)
        waiting = [send for batch in batches if batch is not None for send in batch.sends]
        return frozenset(
            each.job
            for each in (*waiting, *effects)
            if isinstance(each, SendWork) and each.worker == worker
        )

    def _answer(self, link: Link, send: Send) -> None:
        if send.is_strict and self.has_unwritten:
            self._pending.sends.append((link, send))
        else:
            self._transmit(link, send)

    def carry_out(self, effects: Sequence[Effect], now: float) -> None:
        """Collect the records of effects, and the strict sends behind them; send the rest.

        Records first: an effect may stand before the record that it depends on.
        """
        pending, sends = self._pending, []
        for effect in effects:
            if isinstance(effect, Append):
                record, body = effect.record, effect.body
                pending.entries.append(Entry(record, body))
                if body is not None:
                    self.archive.hold(record.seq, body)
            else:
                sends.append(effect)
        has_unwritten = self.has_unwritten
        for effect in sends:
            if has_unwritten and (getattr(effect, "is_strict", False) or self._is_early(effect)):
                pending.sends.append(effect)
            else:
                self._send(effect, now)
        self.links.flush()

    # --- the ledger ---------------------------------------------------------------------------

    @property
    def has_unwritten(self) -> bool:
        """Whether any handled record is not durable yet."""
        return self._in_flight is not None or bool(self._pending.entries)

    @property
    def pending(self) -> int:
        """The number of records that wait for the next write."""
        return len(self._pending.entries)

    @property
    def urgency(self) -> Urgency:
        """How soon `begin_write` must be called."""
        if not self._pending.entries:
            return Urgency.NONE
        is_urgent = self._pending.sends or self.pending > DRAIN_LIMIT
        return Urgency.NOW if is_urgent else Urgency.LATER

    def unwritten(self) -> Iterator[Entry]:
        """Yield what was handled and is not durable yet, in order."""
        if self._in_flight is not None:
            yield from self._in_flight.entries
        yield from self._pending.entries

    def begin_write(self) -> Sequence[Entry]:
        """Return the records to write next; none if a write is under way or nothing is pending.

        The driver writes them, again and again if that fails, and then calls `end_write`.
        """
        if self._in_flight is not None or not self._pending.entries:
            return ()
        self._in_flight, self._pending = self._pending, PendingBatch()
        return self._in_flight.entries

    def write_failed(self, error: LedgerTrouble, now: float) -> None:
        """Note that the ledger takes no records; refuse new jobs if that lasts."""
        if self._failing_since is None:
            self._failing_since = now
        lasts = error.is_lasting or now - self._failing_since >= REFUSE_AFTER
        if lasts and self.broker.state.blocked_because != error.summary:
            self.submit(LedgerBlocked(error.summary))

    def write_works(self) -> None:
        """Note that the ledger takes records again; accept new jobs."""
        if self._failing_since is not None:
            self._failing_since = None
            self.submit(LedgerBlocked())

    def end_write(self, now: float) -> None:
        """Note that the records of `begin_write` are durable; send what waited for them."""
        batch, self._in_flight = self._in_flight, None
        assert batch is not None, "no write is under way"
        self._release(batch.sends, now)
        if not self._pending.entries:
            # These waited for the batch as well: no record has come up since.
            sends, self._pending.sends = self._pending.sends, []
            self._release(sends, now)
        for listen in self.listeners:
            listen(batch.entries)
        self.archive.release(batch.entries)
        self.links.flush()

    def _release(self, sends: Iterable[Effect | tuple[Link, Send]], now: float) -> None:
        for item in sends:
            if isinstance(item, tuple):
                self._transmit(*item)
            else:
                self._send(item, now)

    # --- sending ------------------------------------------------------------------------------

    def _transmit(self, link: Link, send: Send) -> None:
        link.send(send)

    def _send(self, effect: Effect, now: float) -> None:
        """Send an effect to its peer; a failure becomes an event of the next turn."""
        if isinstance(effect, SendWork):
            if effect.body_seq:
                self._send_from_disk(effect, now)
                return
        elif isinstance(effect, SendStatus):
            effect = self.archive.complete(effect, now)
        elif isinstance(effect, SendReply):
            self.before_send(effect, now)
            if effect.seq:
                effect = self.archive.with_body(effect)
            if effect.service in self.reveal:
                effect = self.reveal[effect.service](effect)
        self._events += self.links.render(effect, now)

    def _send_from_disk(self, work: SendWork, now: float) -> None:
        """Send work whose body is on disk; if that cannot be read, the job ends and says so."""
        try:
            work = self.archive.with_request(work)
        except LedgerError as error:
            message = f"the ledger cannot give its request; run `dragoman ledger verify`: {error}"
            fault = Fault(FaultCode.UNDELIVERED, message)
            self.submit(DeliveryFailed(work.worker, False, work.job, work.attempt, fault))
            return
        self._events += self.links.render(work, now)
