"""Recovery of the store: from a snapshot and the records after it, or from all records.

`take_snapshot` is the other direction. Both work with any ledger and any place for snapshots, so
the simulation runs them on their twins in memory.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog

from dragoman.core.job_store import JobStore
from dragoman.core.recovery import fold, forget_old
from dragoman.core.snapshots import read_snapshot, write_snapshot
from dragoman.ledger.base import LedgerError
from dragoman.ledger.snapshots import SnapshotHead, Snapshots, SnapshotUnusable
from dragoman.model.record import Record
from dragoman.model.value import value

log = structlog.get_logger("dragoman.recovery")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, then leave what was made in between out of its scans.

    A recovery makes millions of objects that stay. Scanning them takes a third of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


class MarkedRecords(Protocol):
    """What recovery needs of a ledger."""

    @property
    def first_seq(self) -> int:
        """The oldest record still kept."""
        ...

    def pinned(self) -> list[Record]:
        """Return the records before `first_seq` that retention kept, in order."""
        ...

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Yield records after a position, in order."""
        ...

    def mark(self, seq: int) -> str:
        """Return a text that identifies a record and its ledger."""
        ...


@value
class RecoveredStore:
    """A store, and the snapshot that it was made from."""

    store: JobStore
    #: The last record of the snapshot; 0: all records were replayed.
    snapshot_seq: int = 0
    #: Why a snapshot that exists was not used.
    ignored: str = ""


def recover_store(ledger: MarkedRecords, snapshots: Snapshots, keep: int) -> RecoveredStore:
    """Return the fold of a ledger; keep the newest `keep` finished jobs."""
    ignored = ""
    try:
        found = _from_snapshot(ledger, snapshots)
    except (SnapshotUnusable, ValueError) as error:
        found, ignored = None, str(error)
        log.warning(
            "the snapshot is not used; all records are replayed, which takes longer",
            reason=ignored,
            hint="nothing is lost; the next snapshot replaces it",
        )
    if found is not None:
        seq = found.last_seq
        return RecoveredStore(fold(ledger.read(seq), keep, found), seq)
    is_cut = ledger.first_seq > 1
    return RecoveredStore(fold(_all_records(ledger), keep, JobStore(is_cut)), 0, ignored)


def _all_records(ledger: MarkedRecords) -> Iterator[Record]:
    """Yield the pinned records, then all others."""
    first = ledger.first_seq
    yield from ledger.pinned()
    expected = first
    for record in ledger.read(first - 1):
        if record.seq != expected:
            raise LedgerError(f"retention has removed records {expected} to {record.seq - 1} since")
        yield record
        expected += 1


def _from_snapshot(ledger: MarkedRecords, snapshots: Snapshots) -> JobStore | None:
    head = snapshots.head()
    if head is None:
        return None
    _require_ours(ledger, head)
    store = read_snapshot(snapshots.rows())
    if store.last_seq != head.seq:
        raise SnapshotUnusable(f"its head says record {head.seq}, its rows {store.last_seq}")
    return store


def _require_ours(ledger: MarkedRecords, head: SnapshotHead) -> None:
    try:
        mark = ledger.mark(head.seq)
    except LedgerError as error:
        raise SnapshotUnusable(str(error)) from error
    if mark != head.mark:
        raise SnapshotUnusable(f"it is not of this ledger: record {head.seq} is another one")


def take_snapshot(
    store: JobStore, ledger: MarkedRecords, snapshots: Snapshots, retention: float
) -> None:
    """Write a snapshot of a store whose records are all durable.

    Finished jobs that a start would drop because of their age (`retention`) are left out.
    """
    forget_old(store, store.last_at - retention)
    head = SnapshotHead(store.last_seq, ledger.mark(store.last_seq))
    snapshots.write(head, write_snapshot(store))
