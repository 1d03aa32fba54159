"""Planted bugs of durability: a sent message is not on disk, or a restart loses it.

They break "a record is durable before its consequence leaves the process", or the fold of records
at start.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from dragoman.core import job_store, recovery
from dragoman.core.effects import SendWork
from dragoman.core.job_store import JobStore
from dragoman.ledger.base import Entry
from dragoman.model.body import Body
from dragoman.model.job import JobState
from dragoman.model.record import Kind, Record
from dragoman.server import store_recovery
from dragoman.server.archive import Archive
from dragoman.server.engine import BrokerEngine
from dragoman.testing.bugs.planting import Bugs, replaced
from dragoman.testing.server import SimServer

BUGS: Final = Bugs()


@BUGS.add
def ack_before_sync() -> Iterator[None]:
    """Strict sends leave with their batch, whether it is on the disk or not."""
    with replaced(BrokerEngine, "has_unwritten", property(lambda self: False)):
        yield


@BUGS.add
def ack_while_the_batch_before_is_written() -> Iterator[None]:
    """Strict sends wait for their own batch, but not for the one that is being written."""
    with replaced(BrokerEngine, "has_unwritten", property(lambda self: self.pending > 0)):
        yield


@BUGS.add
def send_after_failed_append() -> Iterator[None]:
    """A write that failed is taken for one that succeeded."""

    def failed(self: SimServer, why: str, entries: Sequence[Entry]) -> None:
        self.world.fault("disk")
        self.engine.end_write(self.world.now)

    with replaced(SimServer, "_write_failed", failed):
        yield


@BUGS.add
def result_forgotten_after_recovery() -> Iterator[None]:
    """A replay treats the end of a job as the end of one attempt."""

    def ended(self: JobStore, record: Record) -> None:
        if replaying:
            self._part(record).state = JobState.QUEUED
            return
        old(self, record)

    def fold(*args: Any) -> JobStore:
        replaying.append(True)
        try:
            return old_fold(*args)
        finally:
            replaying.clear()

    replaying: list[bool] = []
    old, old_fold = job_store._STEPS[Kind.ENDED], recovery.fold
    with replaced(job_store._STEPS, Kind.ENDED, ended), replaced(store_recovery, "fold", fold):
        yield


@BUGS.add
def records_after_a_snapshot_forgotten() -> Iterator[None]:
    """A start uses the snapshot and does not read the records after it."""

    def fold(records: Iterable[Record], keep: int, store: JobStore | None = None) -> JobStore:
        if store is None:
            return old_fold(records, keep)
        store.last_seq = max((record.seq for record in records), default=store.last_seq)
        return store

    old_fold = recovery.fold
    with replaced(store_recovery, "fold", fold):
        yield


@BUGS.add
def request_lost_in_recovery() -> Iterator[None]:
    """The bodies of queued requests are not read back from the ledger."""

    def with_request(self: Archive, work: SendWork) -> object:
        return replace(work, body=Body("local", (b"?",)), body_seq=0)

    with replaced(Archive, "with_request", with_request):
        yield
