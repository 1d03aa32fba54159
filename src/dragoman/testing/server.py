"""The simulated server: the server's own engine and links, on a simulated network and disk.

Only the I/O is simulated: when a turn runs, how long a sync takes, what a crash leaves. What is
handled, written and sent when is decided by `server.engine`, as in the real server.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendBeat
from dragoman.core.events import Event, TimeAdvanced
from dragoman.core.job_store import JobStore
from dragoman.core.limits import Limits
from dragoman.core.recovery import resume
from dragoman.dialects.base import Send
from dragoman.ledger.base import Entry, LedgerUnwritable
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.snapshots import MemorySnapshots
from dragoman.server.archive import Archive
from dragoman.server.clock import Clock
from dragoman.server.clock_check import require_plausible
from dragoman.server.engine import BrokerEngine
from dragoman.server.links import Link, Links, peer_of
from dragoman.server.side_recovery import SideRecovery
from dragoman.server.store_recovery import recover_store, take_snapshot
from dragoman.testing.network import Network
from dragoman.testing.oracle import Oracle
from dragoman.testing.sim_transport import Deliver, SimTransport
from dragoman.testing.summary import summary
from dragoman.testing.world import World

#: How long a full or broken disk is left alone.
RETRY_AFTER: Final = 1.0
#: How long transports need to read what arrived while the process stood still, at most.
READING_TIME: Final = 0.4
#: The setting `largest_clock_jump` of simulated brokers.
LARGEST_CLOCK_JUMP: Final = 3600.0

#: Makes the broker's sides by link name; new ones for each process, because a crash loses them.
MakeSides = Callable[[], Mapping[str, Any]]


class WatchedEngine(BrokerEngine):
    """The engine of the server; the oracle sees what it handles and what it sends."""

    def __init__(self, broker: Broker, links: Links, ledger: MemoryLedger, oracle: Oracle) -> None:
        super().__init__(broker, links, Archive(ledger))
        self._ledger = ledger
        self._oracle = oracle
        self.events = 0
        #: Strict sends by identity, with the last record that each must wait for.
        self._needed: dict[int, tuple[Effect | Send, int]] = {}

    def start(self, effects: Sequence[Effect], now: float) -> None:
        """Carry out the effects of a recovery."""
        self._note_handled(None, effects)
        self.carry_out(effects, now)

    def _handle(self, event: Event, now: float) -> list[Effect]:
        self.events += 1
        if type(event) is not TimeAdvanced:
            self._oracle.world.note("", "broker", summary(event))
        effects = super()._handle(event, now)
        self._note_handled(event, effects)
        return effects

    def _note_handled(self, event: Event | None, effects: Sequence[Effect]) -> None:
        self._oracle.handled(event, effects, self.broker)
        for effect in effects:
            if type(effect) is Append:
                self._oracle.world.note("broker", "ledger", summary(effect))
            elif getattr(effect, "is_strict", False):
                self._note_needed(effect)

    def _note_needed(self, item: Effect | Send) -> None:
        self._needed[id(item)] = (item, self.broker.state.store.last_seq)

    def _answer(self, link: Link, send: Send) -> None:
        if send.is_strict:
            self._note_needed(send)
        super()._answer(link, send)

    def _transmit(self, link: Link, send: Send) -> None:
        self._note_leaving(send)
        super()._transmit(link, send)

    def _send(self, effect: Effect, now: float) -> None:
        self._note_leaving(effect)
        if type(effect) is not SendBeat:
            self._oracle.world.note("broker", peer_of(effect), summary(effect))
        super()._send(effect, now)

    def _note_leaving(self, item: Effect | Send) -> None:
        _, needed = self._needed.pop(id(item), (item, 0))
        self._oracle.leaving(item, needed, self._ledger.last_seq)


class SimServer:
    """One broker process after another on one disk."""

    def __init__(
        self,
        world: World,
        network: Network,
        ledger: MemoryLedger,
        make_sides: MakeSides,
        deliver: Deliver,
        oracle: Oracle,
        limits: Limits,
    ) -> None:
        self.world = world
        self.network = network
        self.ledger = ledger
        #: On the same disk; a crash leaves it as it is.
        self.snapshots = MemorySnapshots()
        self.oracle = oracle
        oracle.ledger = lambda: self.ledger
        self.limits = limits
        #: How long a sync takes, in seconds.
        self.sync_time = 0.002
        #: Whether an append that failed ends the process; if not, it is tried again.
        self.stops_on_error = False
        self._make_sides = make_sides
        self.deliver = deliver
        self.is_up = False
        self.life = 0
        self._events_before = 0
        #: How far the wall clock is wrong, in seconds; None: the broker uses the world's clock.
        self.wall_error: float | None = None
        #: Until when the process stands still.
        self._stands_until = 0.0
        #: Messages that arrived while it stood still and are not read yet, in order.
        self._unread: deque[tuple[str, object, object]] = deque()
        self.start()

    # --- life and death -----------------------------------------------------------------------

    def start(self) -> None:
        """Start a process: recover what the disk has and continue."""
        if self.is_up:
            return
        store = recover_store(self.ledger, self.snapshots, self.limits.finished_jobs).store
        if not self._has_plausible_clock(store):
            return
        self.is_up = True
        self.life += 1
        self.sides = self._make_sides()
        self.transports = {
            name: SimTransport(name, self.network, self._find_peer) for name in self.sides
        }
        links = Links([Link(side, self.transports[n]) for n, side in self.sides.items()])
        for name, transport in self.transports.items():
            transport.wake = partial(links.announce, links.by_name[name])
        self._turn_at = float("inf")
        self.now = self._clock(store.last_at)
        self.oracle.recovered(store, self.now(), self.limits)
        self.broker, effects = resume(store, self.now(), self.limits)
        recovery = SideRecovery(self.sides, self.broker, self.ledger.body)
        recovery.restore(self.now())
        self.world.note("broker", "", f"started, life {self.life}, at record {store.last_seq}")
        self.engine = WatchedEngine(self.broker, links, self.ledger, self.oracle)
        self.engine.before_send = recovery.before
        self.engine.start(effects, self.now())
        self._go_on()

    def _clock(self, at_least: float) -> Callable[[], float]:
        """Return the broker's clock: the real one on the world's clocks, if its wall is wrong."""
        world = self.world
        if self.wall_error is None:
            return lambda: world.now
        return Clock(at_least, self._wall, lambda: world.now).now

    def _wall(self) -> float:
        return self.world.now + (self.wall_error or 0.0)

    def _has_plausible_clock(self, store: JobStore) -> bool:
        """Tell whether the broker starts; if not, an operator sets the clock and starts it."""
        try:
            require_plausible(store, self._wall(), LARGEST_CLOCK_JUMP)
        except ValueError as error:
            self.world.note("broker", "", f"does not start: {error}")
            self.wall_error = 0.0
            self.world.after(RETRY_AFTER, self.start)
            return False
        return True

    def stand_still(self, seconds: float) -> None:
        """Stop the process for a while; messages wait unread meanwhile."""
        if self.is_up:
            self._stands_until = max(self._stands_until, self.world.now + seconds)
            self.world.at(self._stands_until, self._read_on, self.life)

    @property
    def _stands_still(self) -> bool:
        return self.world.now < self._stands_until

    def _read_on(self, life: int) -> None:
        """Read what arrived meanwhile, in order. A transport needs some turns for that."""
        if life != self.life or self._stands_still:
            return
        if self._unread:
            link, address, message = self._unread.popleft()
            self.transports[link].arrive(address, message)
            self._plan_now()
            pause = READING_TIME / (len(self._unread) + 1)
            self.world.after(pause * self.world.random.random(), self._read_on, life)

    def has_unread(self, link: str, address: object) -> bool:
        """Tell whether a message of a peer arrived and is not read yet."""
        return any(each[:2] == (link, address) for each in self._unread)

    def crash(self) -> None:
        """End the process now; the disk decides which unsynced records survive."""
        if not self.is_up:
            return
        self.is_up = False
        self._stands_until = 0.0
        self._unread.clear()
        self._events_before += self.engine.events
        self.oracle.crashing(self.broker, self.unwritten())
        if self.life % 2:
            # So half of all starts have records after the snapshot.
            self.take_snapshot()
        self.ledger = self.ledger.crash()
        self.world.note("broker", "", f"crashed; the disk has {self.ledger.last_seq} records")

    def take_snapshot(self) -> None:
        """Write a snapshot of what is durable, as the server does in the background."""
        store = recover_store(self.ledger, self.snapshots, self.limits.finished_jobs).store
        if store.last_seq:
            take_snapshot(store, self.ledger, self.snapshots, self.limits.retention)

    def damage_snapshot(self) -> bool:
        """Change a byte of the snapshot, or cut its end off; tell whether there is one."""
        content, random = self.snapshots.content, self.world.random
        if not content:
            return False
        at = random.randrange(len(content))
        changed = bytes([content[at] ^ 1 << random.randrange(8)])
        rest = changed + content[at + 1 :] if random.random() < 0.7 else b""
        self.snapshots.content = content[:at] + rest
        return True

    @property
    def events(self) -> int:
        """How many events all processes have handled."""
        return self._events_before + (self.engine.events if self.is_up else 0)

    def unwritten(self) -> list[Entry]:
        """Return what has been handled and is not durable yet."""
        return list(self.engine.unwritten())

    def _find_peer(self, link: str, address: object) -> Any:
        return self.deliver(link, address)

    # --- turns --------------------------------------------------------------------------------

    def arrive(self, link: str, address: object, message: object) -> None:
        """Receive a message from the network; it is lost while the process is down."""
        if self.is_up and (self._stands_still or self._unread):
            self._unread.append((link, address, message))
        elif self.is_up:
            self.transports[link].arrive(address, message)
            self._plan_now()

    def submit(self, event: Event) -> None:
        """Have the broker handle an event of the server itself."""
        if self.is_up:
            self.engine.submit(event)
            self._plan_now()

    def _plan(self, at: float | None) -> None:
        """Run a turn when the broker's clock says `at`, unless one is planned earlier."""
        if at is not None:
            if self.wall_error is not None:
                at = self.world.now + max(0.0, at - self.now())
            self._plan_at(at)

    def _plan_now(self) -> None:
        self._plan_at(self.world.now)

    def _plan_at(self, at: float) -> None:
        if at < self._turn_at:
            self._turn_at = max(at, self.world.now, self._stands_until)
            self.world.at(self._turn_at, self._turn, self.life, self._turn_at)

    def _turn(self, life: int, planned: float) -> None:
        if life != self.life or not self.is_up or planned != self._turn_at:
            return
        self._turn_at = float("inf")
        if self._stands_still:
            self._plan_at(self._stands_until)
            return
        self.engine.turn(self.now())
        for link in self.engine.links.by_name.values():
            self.oracle.require(not link.internal_errors, f"internal error of the {link.name} side")
        self._go_on()

    def _go_on(self) -> None:
        """Begin a write if one is wanted, and plan the next turn."""
        entries = self.engine.begin_write()
        if entries:
            self._append(self.life, entries)
        if self.is_up:
            self._plan(self.engine.next_due())

    # --- the disk -----------------------------------------------------------------------------

    def _append(self, life: int, entries: Sequence[Entry]) -> None:
        if life != self.life or not self.is_up:
            return
        try:
            self.ledger.write(entries)
        except LedgerUnwritable as error:
            self._write_failed(error, entries)
        else:
            self.world.after(self.sync_time, self._sync, life, entries)

    def _sync(self, life: int, entries: Sequence[Entry]) -> None:
        if life != self.life or not self.is_up:
            return
        if self._stands_still:
            self.world.at(self._stands_until, self._sync, life, entries)
            return
        try:
            self.ledger.sync()
        except LedgerUnwritable as error:
            self._write_failed(error, entries)
            return
        self.engine.write_works()
        self.engine.end_write(self.now())
        self._go_on()

    def _write_failed(self, error: LedgerUnwritable, entries: Sequence[Entry]) -> None:
        """Try again later, or end the process with an error. Nothing strict leaves before."""
        self.world.fault("disk")
        self.world.note("broker", "", f"append failed: {error}")
        if self.stops_on_error:
            self.crash()
            self.world.after(RETRY_AFTER, self.start)
        else:
            self.engine.write_failed(error, self.now())
            self._plan(self.engine.next_due())
            self.world.after(RETRY_AFTER, self._append, self.life, entries)
