"""This broker's part in its cluster: standby until it may lead, then leader until it may not.

The server asks here for its role. A broker that is fenced, or cannot renew its lease, stops
sending at once; `server` then closes its links and begins again as a standby.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from dragoman.core.effects import Append, Effect
from dragoman.core.job_store import JobStore
from dragoman.core.view import ClusterRow
from dragoman.ledger.base import Entry, Fenced, Ledger, LedgerError, LedgerUnavailable
from dragoman.ledger.replicated import ReplicatedLedger
from dragoman.ledger.snapshots import Snapshots
from dragoman.server.cluster_clock import ClusterClock
from dragoman.server.cluster_node import ClusterNode, Role
from dragoman.server.lease import Lease, LeaseHolder, LeaseKeeper, LeaseLost
from dragoman.server.standby import Standby

log = structlog.get_logger("dragoman.cluster")

#: How long a node that stepped down leaves the lease to others, in times to live.
_YIELDS: Final = 5.0


#: Errors after which a node no longer leads. Without a majority a node that is told to stop cannot
#: write its last records; they were acknowledged to nobody.
LEADERSHIP_ENDS: Final = (Fenced, LeaseLost, LedgerUnavailable)


class Leadership:
    """The role of this process, and the lease behind it."""

    def __init__(self, cluster: ClusterNode) -> None:
        self.cluster = cluster
        self.role = Role.NEITHER
        self._lease = Lease(cluster.bucket, cluster.node, cluster.ttl)
        self._standby: Standby | None = None
        self._keeper: LeaseKeeper | None = None
        self._is_passing = False
        self._yields_until = 0.0
        self._leads: LeaseHolder | None = None
        self._lost = ""
        #: The clock that this leader continues.
        self.time = ClusterClock()
        self._on_lost: Callable[[Exception], None] = lambda error: None

    @property
    def leader(self) -> LeaseHolder | None:
        """Who leads, as this node knows."""
        if self._leads is not None:
            return self._leads
        return self._standby.holder if self._standby is not None else None

    @property
    def lag(self) -> int:
        """How many messages of the stream this standby has not applied yet."""
        return self._standby.lag if self._standby is not None else 0

    def row(self) -> ClusterRow:
        """Return this node as a row of the view."""
        leader = self.leader
        name, epoch = ("", 0) if leader is None else (leader.node, leader.epoch)
        state = self.cluster.watched()
        return ClusterRow(self.cluster.node, str(self.role), name, epoch, self.lag, state)

    @property
    def epoch(self) -> int:
        """The epoch of this leader; 0: it does not lead."""
        return 0 if self._leads is None else self._leads.epoch

    # --- standby --------------------------------------------------------------------------------

    async def until_leading(
        self, ledger: ReplicatedLedger, snapshots: Snapshots, keep: int
    ) -> JobStore | None:
        """Follow the leader until this node leads; return the fold, or None if it was stopped."""
        self._standby = standby = Standby(
            ledger,
            self._lease,
            snapshots,
            keep,
            not_before=self._yields_until,
            settle=self.cluster.settle,
        )
        await self._open_pass_through(standby)
        self.role = Role.STANDBY
        try:
            leads = await asyncio.to_thread(standby.run)
        finally:
            self.role = Role.NEITHER
        if not leads:
            return None
        self.time = standby.time
        self.time.warn()
        self._begin_to_lead(ledger.lead())
        await asyncio.to_thread(ledger.publish_restored)
        return standby.store

    async def _open_pass_through(self, standby: Standby) -> None:
        if self.cluster.pass_through is not None and not self._is_passing:
            self._is_passing = True
            await self.cluster.pass_through.open(lambda: standby.holder)

    async def close_pass_through(self) -> None:
        """Free the addresses for the links of this broker."""
        if self.cluster.pass_through is not None and self._is_passing:
            self._is_passing = False
            await self.cluster.pass_through.close()

    def stop(self) -> None:
        """End a standby."""
        if self._standby is not None:
            self._standby.stop()

    # --- leader ---------------------------------------------------------------------------------

    def _begin_to_lead(self, epoch: int) -> None:
        self._lost = ""
        self._on_lost = lambda error: None
        self._leads = LeaseHolder(self.cluster.node, epoch, {})
        running = asyncio.get_running_loop()

        def on_lost(why: str) -> None:
            running.call_soon_threadsafe(self._note_lost, why)

        self._keeper = LeaseKeeper(self._lease, epoch, on_lost)

    async def fence(self, ledger: ReplicatedLedger, first: Sequence[Effect]) -> None:
        """Write the first records. From then on no earlier leader can write."""
        entries = [Entry(e.record, e.body) for e in first if isinstance(e, Append)]
        while True:
            self.require_lead()
            try:
                await ledger.append(entries)
            except LedgerUnavailable as error:
                log.warning("the first record is in doubt; it is asked for again", error=str(error))
            else:
                return

    def serves(self, endpoints: dict[str, str], on_lost: Callable[[Exception], None]) -> None:
        """Note that the links are open; `on_lost` is called when this node must stop."""
        assert self._keeper is not None
        assert self._leads is not None
        reachable = self.cluster.advertise(endpoints)
        self._leads = LeaseHolder(self.cluster.node, self._leads.epoch, reachable)
        self._keeper.announce(reachable)
        self._on_lost = on_lost
        self.role = Role.LEADER
        log.info("this node leads", node=self.cluster.node, epoch=self.epoch)
        if self._lost:
            self._note_lost(self._lost)

    def require_lead(self) -> None:
        """Raise LeaseLost if another node may lead."""
        if self._lost or not self._lease.is_held:
            raise LeaseLost(self._lost or "it ended while this process stood still")

    def _note_lost(self, why: str) -> None:
        self._lost = why
        self._on_lost(LeaseLost(why))

    async def hand_over(self) -> None:
        """Release the lease after the last write, so that a standby leads at once."""
        keeper, self._keeper = self._keeper, None
        self._leads = None
        self.role = Role.NEITHER
        if keeper is not None:
            self._yields_until = time.monotonic() + _YIELDS * self.cluster.ttl
            await asyncio.to_thread(keeper.stop)

    async def leave(self) -> None:
        """Give up what this process holds, however it ended."""
        await self.hand_over()
        await self.close_pass_through()
        self._standby = None


async def write_last(ledger: Ledger, last: Sequence[Effect], *, is_alone: bool) -> None:
    """Write the last records of a broker. A leader that cannot write them no longer leads."""
    try:
        await ledger.append([Entry(e.record) for e in last if isinstance(e, Append)])
    except LedgerError as error:
        if is_alone:
            raise
        # Records before them may be in doubt; they were acknowledged to nobody.
        raise LedgerUnavailable(f"the last records are not written: {error}") from error
