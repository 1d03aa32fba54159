"""One node of a simulated cluster: the product's standby, lease, ledger and engine.

Simulated are the network, the servers of the stream, and when each step runs. A node stands still
while it is paused. What the server's loop and its wiring decide (when to stop, in which order a
leader hands over) is repeated here in small.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from dragoman.core.effects import Append, Effect
from dragoman.core.events import Event, Noted
from dragoman.core.limits import Limits
from dragoman.core.needed_records import NeededRecords
from dragoman.core.recovery import resume
from dragoman.ledger.base import Entry, Fenced, LedgerError, LedgerUnavailable
from dragoman.ledger.memory_stream import StreamConnection
from dragoman.ledger.replicated import ReplicatedLedger
from dragoman.ledger.snapshots import MemorySnapshots
from dragoman.model.record import Kind
from dragoman.server.archive import Archive
from dragoman.server.clock import Clock
from dragoman.server.engine import BrokerEngine
from dragoman.server.lease import Lease, LeaseLost
from dragoman.server.links import Link, Links
from dragoman.server.standby import Standby
from dragoman.testing.cluster_oracle import ClusterOracle
from dragoman.testing.memory_bucket import BucketConnection
from dragoman.testing.network import MessageFaults, Network
from dragoman.testing.pass_through_side import PassThroughSide
from dragoman.testing.sim_transport import Deliver, SimTransport
from dragoman.testing.workload import LINK
from dragoman.testing.world import World

TTL: Final = 2.0
#: Seconds between two steps of a standby, two renewals, and two turns of an idle leader.
_LOOK_EVERY: Final = 0.1
_RENEW_EVERY: Final = 0.4
_TURN_EVERY: Final = 0.25
#: How long a publish takes, and the pause after one in doubt.
_PUBLISH: Final = 0.003
_RETRY_AFTER: Final = 0.5
_KEEP: Final = 10
#: Finished jobs are forgotten soon, so that retention has something to remove.
LIMITS: Final = Limits(retention=2.0, recovery_grace=1.0)


class LeaderEngine(BrokerEngine):
    """The engine of a leader; it tells what leaves, and what waits to leave."""

    sends: Callable[[Effect], None]

    def _send(self, effect: Effect, now: float) -> None:
        self.sends(effect)
        super()._send(effect, now)

    @property
    def waiting_sends(self) -> int:
        """How many sends wait for records."""
        in_flight = self._in_flight.sends if self._in_flight is not None else []
        return len(in_flight) + len(self._pending.sends)


class ClusterSimNode:
    """One process after another on one copy."""

    def __init__(
        self,
        world: World,
        name: str,
        folder: Path,
        stream: StreamConnection,
        bucket: BucketConnection,
        oracle: ClusterOracle,
        running: asyncio.AbstractEventLoop,
        deliver: Deliver,
    ) -> None:
        self.world, self.name, self.oracle = world, name, oracle
        self.stream, self.bucket = stream, bucket
        self._path = folder / name / "ledger.db"
        self._running = running
        self._deliver = deliver
        self.wall_error = 0.0
        self.is_up = False
        self.is_leader = False
        self.life = 0
        self._stands_until = 0.0
        #: Tells which other node serves with a newer epoch.
        self.successor: Callable[[int], str] = lambda epoch: ""
        self.start()

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process, as a standby."""
        if self.is_up:
            return
        self.is_up, self.is_leader, self._is_ending = True, False, False
        self.life += 1
        self.ledger = ReplicatedLedger(self._path, self.stream, patience=0.0)
        self.lease = Lease(self.bucket, self.name, TTL, self._boot_time)
        self.standby = Standby(
            self.ledger, self.lease, MemorySnapshots(), 10_000, clock=self._boot_time
        )
        self.standby.recover()
        self.engine: LeaderEngine | None = None
        self._after(_LOOK_EVERY * self.world.random.random(), self._look)

    def crash(self) -> None:
        """End the process now."""
        if self.is_up:
            self.is_up = self.is_leader = False
            self._stands_until = 0.0
            self._running.run_until_complete(self.ledger.close())

    def begin_again(self, why: object) -> None:
        """Stop leading: drop what is not sent, and follow."""
        self.world.note(self.name, "", f"follows: {why}")
        self.crash()
        self.start()

    def stand_still(self, seconds: float) -> None:
        """Pause the process."""
        self._stands_until = self.world.now + seconds

    def _boot_time(self) -> float:
        return self.world.now

    def _wall(self) -> float:
        return self.world.now + self.wall_error

    def _after(self, delay: float, action: Callable[..., None], *args: object) -> None:
        """Run an action of this process later; not while it stands still, nor after its end."""
        self.world.after(delay, self._run, self.life, action, args)

    def _run(self, life: int, action: Callable[..., None], args: tuple[object, ...]) -> None:
        if life != self.life or not self.is_up:
            return
        if self.world.now < self._stands_until:
            self.world.at(self._stands_until, self._run, life, action, args)
            return
        action(*args)

    # --- standby --------------------------------------------------------------------------------

    def _look(self) -> None:
        try:
            if self.standby.step(0.0):
                self._lead()
                return
        except (LedgerUnavailable, TimeoutError, ConnectionError):
            pass
        self._after(_LOOK_EVERY, self._look)

    def _lead(self) -> None:
        epoch = self.ledger.lead()
        self.world.note(self.name, "", f"leads, epoch {epoch}, record {self.ledger.last_seq}")
        store = self.standby.store
        self.now = Clock(store.last_at, self._wall, self._boot_time).now
        broker, first = resume(store, self.now(), LIMITS, f"node {self.name}, epoch {epoch}")
        self.transport = SimTransport(LINK, Network(self.world, MessageFaults()), self._deliver)
        side: Any = PassThroughSide()
        links = Links([Link(side, self.transport)])
        self.transport.wake = partial(links.announce, links.by_name[LINK])
        self.engine = LeaderEngine(broker, links, Archive(self.ledger))
        self.engine.sends = self._sends
        self._after(_RENEW_EVERY, self._renew)
        self._fence(first)

    def _fence(self, first: Sequence[Effect]) -> None:
        """Write the first records, then open."""
        entries = [Entry(e.record, e.body) for e in first if isinstance(e, Append)]
        if not self._may_act() or not self._append(entries):
            if self.is_up and not self.is_leader and self.engine is not None:
                self._after(_RETRY_AFTER, self._fence, first)
            return
        assert self.engine is not None
        self.engine.carry_out(first, self.now())
        self.engine.begin_write()
        self._end_write(entries)
        self.is_leader = True
        self._turn()

    # --- leader ---------------------------------------------------------------------------------

    def _may_act(self) -> bool:
        """Tell whether the lease is held; if not, stop."""
        if self.lease.is_held:
            return True
        self.begin_again("the lease ended")
        return False

    def _renew(self) -> None:
        try:
            self.lease.announce(self.ledger.epoch, {})
        except LeaseLost as error:
            self.begin_again(error)
            return
        if self._may_act():
            self._after(_RENEW_EVERY, self._renew)

    def arrive(self, address: object, event: Event) -> None:
        """Receive a message of a client."""
        if self.is_up and self.is_leader and not self._is_ending:
            self.transport.arrive(address, event)
            self._after(0.0, self._turn_once)

    def _turn(self) -> None:
        if not self._is_ending:
            self._turn_once()
            self._after(_TURN_EVERY, self._turn)

    def _turn_once(self) -> None:
        if self.is_leader and not self._is_ending and self._may_act():
            assert self.engine is not None
            self.engine.turn(self.now())
            self._begin_write()

    def _sends(self, effect: Effect) -> None:
        """Check what leaves: relaxed sends never, once another node serves."""
        if not getattr(effect, "is_strict", False):
            other = self.successor(self.ledger.epoch)
            what = f"{self.name} sends {type(effect).__name__} though {other} leads"
            self.oracle.require(not other, what)

    def _begin_write(self) -> None:
        assert self.engine is not None
        if entries := self.engine.begin_write():
            self._after(_PUBLISH, self._write, entries)

    def _write(self, entries: Sequence[Entry]) -> None:
        if self._append(entries):
            self._end_write(entries)
            self._begin_write()
        elif self.is_leader:
            self._after(_RETRY_AFTER, self._write, entries)

    def _end_write(self, entries: Sequence[Entry]) -> None:
        assert self.engine is not None
        self.oracle.written(entries)
        self.engine.end_write(self.now())

    def _append(self, entries: Sequence[Entry]) -> bool:
        """Write a batch; tell whether it is durable. A fenced node follows."""
        return self._wrote(lambda: self._running.run_until_complete(self.ledger.append(entries)))

    def _wrote(self, write: Callable[[], object]) -> bool:
        try:
            write()
        except Fenced as error:
            if self.is_leader:  # a candidate may have followed a server that was behind
                self.oracle.fenced(self.name, self.ledger.epoch)
            self.begin_again(error)
            return False
        except LedgerUnavailable:
            self.world.fault("in doubt")
            return False
        return True

    def maintain(self) -> None:
        """Move a checkpoint, and remove old records, as the server does beside its work."""
        if not self.is_leader or self.world.now < self._stands_until or not self.engine:
            return
        last, needed = self.ledger.last_seq, NeededRecords(self.engine.broker.state.store)
        if self._wrote(lambda: self.ledger.checkpoint("reader", last)) and self.is_leader:
            retain = self.ledger.retain(keep_records=_KEEP, needed=needed)
            self._wrote(lambda: self._running.run_until_complete(retain))

    def hand_over(self) -> None:
        """Stop in good order: write all, send all, then release the lease."""
        if self.is_leader and not self._is_ending:
            self._is_ending = True
            self._after(0.0, self._end)

    def _end(self) -> None:
        assert self.engine is not None
        if not self._is_all_written():
            self._after(_PUBLISH, self._end)
            return
        has_lease = self.lease._revision > 0  # one that has ended by itself keeps its revision
        self.oracle.require(has_lease, f"{self.name} writes after it has released its lease")
        stopped = self.engine.broker.handle(Noted(Kind.STOPPED), self.now())
        if not self._append([Entry(e.record) for e in stopped if isinstance(e, Append)]):
            if self.is_leader:
                self.begin_again("it could not write its last record")
            return
        waiting = self.engine.waiting_sends
        self.oracle.require(not waiting, f"{self.name} hands over with {waiting} unsent replies")
        self.lease.release()
        self.begin_again("it has handed over")

    def _is_all_written(self) -> bool:
        assert self.engine is not None
        return not self.engine.has_unwritten

    def close(self) -> None:
        """End the process; errors of a broken world do not matter."""
        try:
            self.crash()
        except LedgerError:
            self.is_up = False
