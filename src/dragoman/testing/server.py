"""The simulated server: what the real loop does, in a world that can stop it at any point.

Drain, handle, append, and send what is strict only when the append is durable. The next batch is
handled while one is being written. A crash loses everything but what the disk kept.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from dragoman.core.effects import (
    Append,
    Dismiss,
    Effect,
    SendBeat,
    SendCancel,
    SendInput,
    SendPoll,
    SendReply,
    SendStatus,
    SendWork,
)
from dragoman.core.events import DeliveryFailed, Event, Noted, TimeAdvanced
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold, resume
from dragoman.dialects.base import MalformedMessage, Send, Subscribed
from dragoman.ledger.base import Entry, LedgerFull
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, link_of, peer_id, text_of
from dragoman.model.record import Kind
from dragoman.server.archive import Archive
from dragoman.testing.network import Network
from dragoman.testing.oracle import Oracle
from dragoman.testing.summary import summary
from dragoman.testing.world import World

#: How long a full or broken disk is left alone.
RETRY_AFTER: Final = 1.0
#: Whom each effect is for.
PEER_OF: Final[dict[type, str]] = {
    SendWork: "worker",
    SendInput: "worker",
    SendCancel: "worker",
    SendPoll: "worker",
    SendBeat: "worker",
    SendReply: "client",
    SendStatus: "client",
    Dismiss: "peer",
}

#: Makes the broker's sides by link name; anew for each process, for their memory dies with it.
MakeSides = Callable[[], Mapping[str, Any]]
#: Where a message goes: link, address -> whose that is and how it hears; None: nobody is there.
Deliver = Callable[[str, Any], tuple[str, Callable[[Any], None]] | None]


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
        self.events = 0
        self._make_sides = make_sides
        self._deliver = deliver
        self.is_up = False
        self.life = 0
        self.start()

    # --- life and death -----------------------------------------------------------------------

    def start(self) -> None:
        """Begin a process: recover what the disk has and go on."""
        if self.is_up:
            return
        self.is_up = True
        self.life += 1
        self.sides = self._make_sides()
        self.archive = Archive(self.ledger)
        self._inbox: list[tuple[str, Any, Any]] = []
        self._followups: list[Event] = []
        self._entries: list[Entry] = []
        self._in_hand: list[Entry] = []
        self._waiting: list[tuple[int, Effect | tuple[str, Send]]] = []
        self._is_writing = False
        self._turn_at = float("inf")
        store = fold(self.ledger.read())
        self.oracle.recovered(store, self.world.now, self.limits)
        self.broker, effects = resume(store, self.ledger.body, self.world.now, self.limits)
        self.world.note("broker", "", f"started, life {self.life}, at record {store.last_seq}")
        self.oracle.handled(None, effects, self.broker)
        self._carry_out(effects)
        self._plan()

    def crash(self) -> None:
        """End the process at once; what was not synced is lost, or not, as the disk decides."""
        if not self.is_up:
            return
        self.is_up = False
        self.oracle.crashing(self.broker, self.unwritten())
        self.ledger = self.ledger.crash()
        self.world.note("broker", "", f"crashed; the disk has {self.ledger.last_seq} records")

    def unwritten(self) -> list[Entry]:
        """What has been handled and is not yet durable."""
        return [*self._in_hand, *self._entries]

    # --- one turn -----------------------------------------------------------------------------

    def arrive(self, link: str, address: Any, message: Any) -> None:
        """Take a message from the network; nobody is there while the process is down."""
        if self.is_up:
            self._inbox.append((link, address, message))
            self._plan()

    def _plan(self) -> None:
        """Have a turn when there is something to do."""
        if not self.is_up:
            return
        at = self.world.now if self._inbox or self._followups else self._due_at()
        if at < self._turn_at:
            self._turn_at = max(at, self.world.now)
            self.world.at(self._turn_at, self._turn, self.life, self._turn_at)

    def _due_at(self) -> float:
        found = [self.broker.next_deadline()]
        found += [side.next_deadline() for side in self.sides.values()]
        return min((at for at in found if at is not None), default=float("inf"))

    def _turn(self, life: int, planned: float) -> None:
        if life != self.life or not self.is_up or planned != self._turn_at:
            return
        self._turn_at = float("inf")
        inbox, self._inbox = self._inbox, []
        followups, self._followups = self._followups, []
        for event in followups:
            self._handle(event)
        for link, address, message in inbox:
            for item in self._receive(link, address, message):
                self._take(link, item)
        self._handle(TimeAdvanced())
        for link, side in self.sides.items():
            due = side.next_deadline()
            if due is not None and due <= self.world.now:
                for item in side.advance(self.world.now):
                    self._take(link, item)
        self._plan()

    def _receive(self, link: str, address: Any, message: Any) -> Iterable[Any]:
        try:
            return self.sides[link].receive(address, message, self.world.now)  # type: ignore[no-any-return]
        except MalformedMessage as error:
            peer = peer_id(link, text_of(address))
            return [Noted(Kind.REJECTED, peer, detail=str(error))]

    def _take(self, link: str, item: Event | Send | Subscribed) -> None:
        if isinstance(item, Send):
            if not self.is_up:
                return
            if item.is_strict:
                self._waiting.append((self.broker.state.store.last_seq, (link, item)))
                self._write()
            else:
                self._put_out(link, item)
        elif not isinstance(item, Subscribed):
            self._handle(item)

    def _handle(self, event: Event) -> None:
        if not self.is_up:
            # A failed append has ended the process in the middle of its turn.
            return
        self.events += 1
        if type(event) is not TimeAdvanced:
            self.world.note("", "broker", summary(event))
        effects = self.broker.handle(event, self.world.now)
        self.oracle.handled(event, effects, self.broker)
        self._carry_out(effects)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """Put records and strict sends in line for the disk; send the rest."""
        for effect in effects:
            if type(effect) is Append:
                self.world.note("broker", "ledger", summary(effect))
                self._entries.append(Entry(effect.record, effect.body))
                if effect.body is not None:
                    self.archive.hold(effect.record.seq, effect.body)
            elif getattr(effect, "is_strict", False):
                self._waiting.append((self.broker.state.store.last_seq, effect))
            else:
                self._send(effect, 0)
        self._write()

    # --- the disk -----------------------------------------------------------------------------

    def _write(self) -> None:
        """Write what is in line, unless a write is under way; then it goes with the next one."""
        if self._is_writing or not (self._entries or self._waiting):
            return
        if not self._entries:
            self._release()
            return
        self._is_writing = True
        self._in_hand, self._entries = self._entries, []
        self._append(self.life)

    def _append(self, life: int) -> None:
        if life != self.life or not self.is_up:
            return
        try:
            self.ledger.write(self._in_hand)
        except LedgerFull as error:
            self._write_failed(str(error))
        else:
            self.world.after(self.sync_time, self._sync, life)

    def _sync(self, life: int) -> None:
        if life != self.life or not self.is_up:
            return
        try:
            self.ledger.sync()
        except LedgerFull as error:
            self._write_failed(str(error))
            return
        self._is_writing = False
        self.archive.release(self._in_hand)
        self._in_hand = []
        self._release()
        self._write()

    def _write_failed(self, why: str) -> None:
        """Nothing strict leaves: try again later, or end the process with an error."""
        self.world.fault("disk")
        self.world.note("broker", "", f"append failed: {why}")
        if self.stops_on_error:
            self.crash()
            self.world.after(RETRY_AFTER, self.start)
        else:
            self.world.after(RETRY_AFTER, self._append, self.life)

    def _release(self) -> None:
        """Send what waited for records that are durable now."""
        durable = self.ledger.last_seq
        while self._waiting and self._waiting[0][0] <= durable:
            needed, item = self._waiting.pop(0)
            if isinstance(item, tuple):
                self._put_out(*item)
            else:
                self._send(item, needed)

    # --- sending ------------------------------------------------------------------------------

    def _send(self, effect: Effect, needed: int) -> None:
        """Send an effect to its peer; what could not be sent comes back as an event."""
        peer: PeerId = getattr(effect, PEER_OF[type(effect)])
        self.oracle.leaving(effect, needed, self.ledger.last_seq)
        if type(effect) is not SendBeat:
            self.world.note("broker", peer, summary(effect))
        if type(effect) is SendStatus:
            effect = self.archive.complete(effect)
        elif type(effect) is SendReply and effect.seq:
            effect = self.archive.with_body(effect)
        link = link_of(peer)
        side = self.sides.get(link)
        if side is None:
            return
        try:
            sends = side.render(effect, self.world.now)
        except Unmappable as error:
            self._undelivered(effect, peer, Fault(FaultCode.UNMAPPABLE, str(error)), is_gone=False)
            return
        for send in sends:
            if not self._put_out(link, send):
                self._undelivered(effect, peer, None, is_gone=True)

    def _put_out(self, link: str, send: Send) -> bool:
        found = self._deliver(link, send.address)
        if found is None:
            return False
        self.network.send("broker", found[0], found[1], send.frames)
        return True

    def _undelivered(
        self, effect: Effect, peer: PeerId, fault: Fault | None, *, is_gone: bool
    ) -> None:
        attempt = effect.attempt if type(effect) is SendWork else 0
        job = getattr(effect, "job", None)
        self._followups.append(DeliveryFailed(peer, is_gone, job, attempt, fault))
        self._plan()
