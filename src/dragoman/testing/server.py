"""The simulated server: the server's own engine and links, on a simulated network and disk.

Only the I/O is simulated: when a turn runs, how long a sync takes, what a crash leaves. What is
handled, written and sent when is decided by `server.engine`, as in the real server.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendBeat
from dragoman.core.events import Event, TimeAdvanced
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold, resume
from dragoman.dialects.base import Send
from dragoman.ledger.base import Entry, LedgerFull
from dragoman.ledger.memory import MemoryLedger
from dragoman.server.archive import Archive
from dragoman.server.engine import BrokerEngine
from dragoman.server.links import Link, Links, peer_of
from dragoman.server.side_recovery import resume_sides
from dragoman.testing.network import Network
from dragoman.testing.oracle import Oracle
from dragoman.testing.sim_transport import Deliver, SimTransport
from dragoman.testing.summary import summary
from dragoman.testing.world import World

#: How long a full or broken disk is left alone.
RETRY_AFTER: Final = 1.0

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
        self.start()

    # --- life and death -----------------------------------------------------------------------

    def start(self) -> None:
        """Start a process: recover what the disk has and continue."""
        if self.is_up:
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
        store = fold(self.ledger.read())
        self.oracle.recovered(store, self.world.now, self.limits)
        self.broker, effects = resume(store, self.ledger.body, self.world.now, self.limits)
        resume_sides(self.sides, self.broker, self.world.now)
        self.world.note("broker", "", f"started, life {self.life}, at record {store.last_seq}")
        self.engine = WatchedEngine(self.broker, links, self.ledger, self.oracle)
        self.engine.start(effects, self.world.now)
        self._go_on()

    def crash(self) -> None:
        """End the process now; the disk decides which unsynced records survive."""
        if not self.is_up:
            return
        self.is_up = False
        self._events_before += self.engine.events
        self.oracle.crashing(self.broker, self.unwritten())
        self.ledger = self.ledger.crash()
        self.world.note("broker", "", f"crashed; the disk has {self.ledger.last_seq} records")

    @property
    def events(self) -> int:
        """How many events all processes have handled."""
        return self._events_before + (self.engine.events if self.is_up else 0)

    def unwritten(self) -> list[Entry]:
        """Return what has been handled and is not durable yet."""
        return list(self.engine.unwritten())

    def _find_peer(self, link: str, address: Any) -> Any:
        return self.deliver(link, address)

    # --- turns --------------------------------------------------------------------------------

    def arrive(self, link: str, address: Any, message: Any) -> None:
        """Receive a message from the network; it is lost while the process is down."""
        if self.is_up:
            self.transports[link].arrive(address, message)
            self._plan(self.world.now)

    def submit(self, event: Event) -> None:
        """Have the broker handle an event of the server itself."""
        if self.is_up:
            self.engine.submit(event)
            self._plan(self.world.now)

    def _plan(self, at: float | None) -> None:
        """Run a turn at `at`, unless one is planned earlier."""
        if at is not None and at < self._turn_at:
            self._turn_at = max(at, self.world.now)
            self.world.at(self._turn_at, self._turn, self.life, self._turn_at)

    def _turn(self, life: int, planned: float) -> None:
        if life != self.life or not self.is_up or planned != self._turn_at:
            return
        self._turn_at = float("inf")
        self.engine.turn(self.world.now)
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
        except LedgerFull as error:
            self._write_failed(str(error), entries)
        else:
            self.world.after(self.sync_time, self._sync, life, entries)

    def _sync(self, life: int, entries: Sequence[Entry]) -> None:
        if life != self.life or not self.is_up:
            return
        try:
            self.ledger.sync()
        except LedgerFull as error:
            self._write_failed(str(error), entries)
            return
        self.engine.end_write(self.world.now)
        self._go_on()

    def _write_failed(self, why: str, entries: Sequence[Entry]) -> None:
        """Try again later, or end the process with an error. Nothing strict leaves before."""
        self.world.fault("disk")
        self.world.note("broker", "", f"append failed: {why}")
        if self.stops_on_error:
            self.crash()
            self.world.after(RETRY_AFTER, self.start)
        else:
            self.world.after(RETRY_AFTER, self._append, self.life, entries)
