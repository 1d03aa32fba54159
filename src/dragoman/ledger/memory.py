"""The in-memory twin of the SQLite ledger.

It passes the same conformance suite, so that tests and the simulation can use it in place of the
real one. `append` is `write` and then `sync`; the simulation calls them separately, to crash in
between. `crash` is a power failure: it returns what a restart would find.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from dragoman.ledger.base import Entry, LedgerError, LedgerUnwritable, Needed
from dragoman.ledger.disk import Disk, ReliableDisk
from dragoman.ledger.retention import (
    last_removable,
    require_kept,
    require_next,
    require_position,
)
from dragoman.ledger.rows import Row, chain, to_row
from dragoman.model.body import Body
from dragoman.model.record import Record


class MemoryLedger:
    """Durable entries, batches in the write cache, and checkpoints."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk: Disk = disk if disk is not None else ReliableDisk()
        self._entries: list[Entry] = []  #: durable, from `_first` on
        self._pinned: dict[int, Entry] = {}  #: before `_first`, in order
        self._first = 1
        self._unsynced: list[Sequence[Entry]] = []  #: batches in the write cache, oldest first
        self._jobs: defaultdict[str, list[int]] = defaultdict(list)
        self._checkpoints: dict[str, int] = {}
        self._is_open = True

    @property
    def last_seq(self) -> int:
        """The newest durable record."""
        return self._first + len(self._entries) - 1

    @property
    def first_seq(self) -> int:
        """The oldest record still kept."""
        return self._first

    def write(self, entries: Sequence[Entry]) -> None:
        """Put a batch into the write cache; a crash may lose it."""
        self._require_open()
        require_next(entries, self.last_seq + sum(map(len, self._unsynced)))
        for entry in entries:
            chain(to_row(entry.record), 0)  # refuses what the SQLite ledger cannot store
        self.disk.write(len(entries))
        self._unsynced.append(tuple(entries))

    def sync(self) -> int:
        """Make every written batch durable; on failure, drop them all."""
        self._require_open()
        try:
            self.disk.sync()
        except LedgerUnwritable:
            self._unsynced.clear()
            raise
        for batch in self._unsynced:
            self._keep(batch)
        self._unsynced.clear()
        return self.last_seq

    async def append(self, entries: Sequence[Entry]) -> int:
        """Write a batch and make it durable."""
        self._require_open()
        if not entries:
            return self.last_seq
        self.write(entries)
        return self.sync()

    def crash(self) -> "MemoryLedger":
        """Simulate a power failure: return the ledger that a restart would find.

        A batch survives whole or not at all, as a commit does. Batches after a lost one are lost.
        """
        after = MemoryLedger(self.disk)
        after._first, after._pinned = self._first, dict(self._pinned)
        after._keep(self._entries)
        after._checkpoints = dict(self._checkpoints)
        for batch in self._unsynced:
            if self.disk.survivors(len(batch)) < len(batch):
                break
            after._keep(batch)
        self._is_open = False
        return after

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Yield records after a position, in order."""
        self._require_open()
        require_kept(after, self._first)
        return self._read(max(after + 1, self._first), limit)

    def rows(self, after: int, limit: int) -> list[Row]:
        """Return records after a position as plain tuples in field order."""
        return [to_row(record) for record in self.read(after, limit)]

    def mark(self, seq: int) -> str:
        """Return a text that identifies a record and its place."""
        self._require_open()
        if not self._first <= seq <= self.last_seq:
            raise LedgerError(f"record {seq} is not in this ledger")
        return f"{chain(to_row(self._entries[seq - self._first].record), seq):08x}"

    def history(self, job: str) -> list[Record]:
        """Return every record of one job, in order."""
        self._require_open()
        seqs = self._jobs.get(job, ()) if job else ()
        pinned = [record for record in self.pinned() if job and record.job == job]
        return pinned + [self._entries[seq - self._first].record for seq in seqs]

    def pinned(self) -> list[Record]:
        """Return the records before `first_seq` that retention kept, in order."""
        self._require_open()
        return [entry.record for entry in self._pinned.values()]

    def body(self, seq: int) -> Body | None:
        """Return the body of a record."""
        self._require_open()
        if self._first <= seq <= self.last_seq:
            return self._entries[seq - self._first].body
        return self._pinned[seq].body if seq in self._pinned else None

    def checkpoint(self, name: str, seq: int) -> None:
        """Store how far a named reader has read."""
        self._require_open()
        require_position(name, seq, self.last_seq)
        self.disk.write(1)
        self.disk.sync()
        self._checkpoints[name] = seq

    def checkpoints(self) -> dict[str, int]:
        """Return every named reader's position."""
        self._require_open()
        return dict(self._checkpoints)

    def forget_checkpoint(self, name: str) -> None:
        """Remove the checkpoint of a reader that will not come back."""
        self._require_open()
        self._checkpoints.pop(name, None)

    async def retain(
        self,
        *,
        before_at: float | None = None,
        keep_records: int | None = None,
        needed: Needed | None = None,
    ) -> int:
        """Remove the oldest records that no policy, job or reader needs; return `first_seq`."""
        self._require_open()
        policies = []
        if before_at is not None:
            policies.append(self._last_before(before_at))
        if keep_records is not None:
            policies.append(self.last_seq - keep_records)
        if not policies:
            return self._first
        last = last_removable(policies, self._checkpoints.values())
        removed = self._entries[: max(0, last + 1 - self._first)]
        for entry in removed:
            self._forget_job(entry.record)
        self._first += len(removed)
        del self._entries[: len(removed)]
        candidates = (*self._pinned.values(), *removed)
        is_needed = needed or (lambda record: False)
        self._pinned = {e.record.seq: e for e in candidates if is_needed(e.record)}
        return self._first

    async def close(self) -> None:
        """Close."""
        self._is_open = False

    def _keep(self, batch: Sequence[Entry]) -> None:
        for entry in batch:
            self._entries.append(entry)
            if entry.record.job:
                self._jobs[entry.record.job].append(entry.record.seq)

    def _read(self, seq: int, limit: int | None) -> Iterator[Record]:
        stop = None if limit is None else seq + limit
        while seq <= self.last_seq and (stop is None or seq < stop):
            require_kept(seq - 1, self._first)
            yield self._entries[seq - self._first].record
            seq += 1

    def _last_before(self, before_at: float) -> int:
        for entry in self._entries:
            if entry.record.at >= before_at:
                return entry.record.seq - 1
        return self.last_seq

    def _forget_job(self, record: Record) -> None:
        seqs = self._jobs.get(record.job)
        if seqs:
            del seqs[0]
            if not seqs:
                del self._jobs[record.job]

    def _require_open(self) -> None:
        if not self._is_open:
            raise LedgerError("the ledger is closed")
