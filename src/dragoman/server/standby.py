"""A standby: follows the leader's stream, and takes over when nobody leads.

Each message is applied to the copy and folded as it comes, so that taking over is opening for work,
not a replay. It runs on a thread, because the stream's calls block.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from dragoman.core.job_store import JobStore
from dragoman.core.recovery import fold
from dragoman.ledger.base import LedgerFull, LedgerUnavailable
from dragoman.ledger.replicated import Applied, ReplicatedLedger
from dragoman.ledger.snapshots import Snapshots
from dragoman.server.cluster_clock import ClusterClock
from dragoman.server.lease import Lease, LeaseHolder, LeaseLost
from dragoman.server.store_recovery import recover_store

log = structlog.get_logger("dragoman.standby")

#: Seconds between two looks at the lease; buckets do not tell watchers when a key has ended.
_LOOK_EVERY: Final = 0.1
_MEASURE_EVERY: Final = 1.0
_RETRY_AFTER: Final = 0.2
#: Messages that a standby may be behind while it hears the leader's clock.
_LIVE: Final = 64


class Standby:
    """Follows until this node holds the lease and has every message of the stream."""

    def __init__(
        self,
        ledger: ReplicatedLedger,
        lease: Lease,
        snapshots: Snapshots,
        keep: int,
        *,
        not_before: float = 0.0,
        settle: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            ledger: the copy of this node.
            lease: this node's view of the lease.
            snapshots: where the fold may begin.
            keep: the number of finished jobs that the fold keeps.
            not_before: until then other nodes may take the lease first.
            settle: seconds that a node without records leaves the lead of a new cluster to
                others: one of them may have a restored ledger.
            clock: a clock that never goes back.

        """
        self._ledger = ledger
        self._lease = lease
        self._snapshots = snapshots
        self._keep = keep
        self._not_before = not_before
        self._settle = settle
        self._clock = clock
        self._stopping = threading.Event()
        #: Who leads, as this node knows.
        self.holder: LeaseHolder | None = None
        #: Messages of the stream that are not applied yet, as of the last look.
        self.lag = 0
        self._looks_at = 0.0
        #: Whether the stream and the lease could be read the last time.
        self.is_connected = False
        self.store = JobStore()
        #: The leader's clock, and whether messages come as they are written.
        self.time = ClusterClock()
        self._is_live = False

    def stop(self) -> None:
        """Let `run` end."""
        self._stopping.set()

    def recover(self) -> None:
        """Fold what the copy has."""
        self.store = recover_store(self._ledger, self._snapshots, self._keep).store

    def run(self) -> bool:
        """Follow; return True when this node may lead, False when it was stopped."""
        self.recover()
        log.info("standby", records=self._ledger.last_seq)
        while not self._stopping.is_set():
            if self.attempt(_LOOK_EVERY):
                return True
        return False

    def attempt(self, at_most: float) -> bool:
        """Make a step; wait a little if the stream does not answer or the disk is full."""
        try:
            if self.step(at_most):
                return True
            self._note_connected(None)
        except (LedgerUnavailable, OSError) as error:
            self._note_connected(error)
            self._stopping.wait(_RETRY_AFTER)
        except LedgerFull as error:
            self._note_connected(error)
            self._stopping.wait(_RETRY_AFTER)
            # Messages before the one that found no space are in the copy, and not in the fold.
            self.recover()
        return False

    def step(self, at_most: float) -> bool:
        """Apply what comes within a time; take over if no node leads, and say so."""
        self.follow(at_most)
        self._measure_lag()
        self.holder = self._lease.holder()
        if self.holder is not None:
            self._not_before = 0.0  # another node had its chance
        is_free = self.holder is None and self._clock() >= self._not_before
        if is_free and self._is_new():
            self._settle, wait = 0.0, self._settle
            self._not_before = self._clock() + wait
            is_free = not wait
        return is_free and self._take_over(at_most)

    def _is_new(self) -> bool:
        """Tell whether neither this node nor the cluster has a record."""
        return not self._ledger.last_seq and not self._ledger.place.stream

    def _measure_lag(self) -> None:
        if self._clock() >= self._looks_at:
            self._looks_at = self._clock() + _MEASURE_EVERY
            self.lag = max(0, self._ledger.stream.last_sequence() - self._ledger.place.stream)
            self._is_live = self._is_live or self.lag <= _LIVE

    def _take_over(self, at_most: float) -> bool:
        """Take the lease, then everything that the stream has."""
        if not self._lease.take(self._ledger.place.epoch + 1):
            return False
        log.info("this node takes over", last_record=self._ledger.last_seq)
        try:
            while not self._is_caught_up():
                self.follow(at_most)
        except BaseException:
            self._lease.release()
            raise
        return True

    def _is_caught_up(self) -> bool:
        """Tell whether the copy has all messages. The lease must last that long."""
        try:
            is_held = self._lease.renew()
        except LeaseLost:
            is_held = False
        if not is_held:
            raise LedgerUnavailable("the lease ended before this node had caught up")
        return self._ledger.is_caught_up()

    def follow(self, at_most: float) -> None:
        """Apply and fold the next messages."""
        self._fold(self._ledger.follow(at_most))

    def _fold(self, found: Iterable[Applied]) -> None:
        for applied in found:
            if applied.is_new_start:
                self.store = JobStore(is_cut=self._ledger.first_seq > 1)
            fold(applied.records, self._keep, self.store)
            if applied.records and self._is_live and self.holder is not None:
                self.time.hear(applied.records[-1].at)

    def _note_connected(self, error: Exception | None) -> None:
        if error is not None and self.is_connected:
            log.warning("the standby cannot follow the leader and tries again", error=str(error))
        elif error is None and not self.is_connected:
            log.info("the standby follows the leader", last_record=self._ledger.last_seq)
        self.is_connected = error is None
        self._is_live = self._is_live and self.is_connected
