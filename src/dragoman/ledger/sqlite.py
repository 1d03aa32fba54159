"""The ledger on one machine: an SQLite file in WAL mode, synced at every commit.

One thread writes (see `writer`). Readers use their own connection and read a block of records at a
time, so that no long read delays the checkpoint of the write-ahead log.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final, TypeVar
from zlib import crc32

import apsw

from dragoman.ledger import layout, pins, reading
from dragoman.ledger.atomic_file import make_folder
from dragoman.ledger.base import Entry, LedgerDamaged, LedgerError, Needed
from dragoman.ledger.damage import CorruptData, checked_blob, locate_damage
from dragoman.ledger.file_identity import FileIdentity
from dragoman.ledger.head import HeadFile
from dragoman.ledger.layout import Extent, Origin, Transaction
from dragoman.ledger.retention import (
    SLICE,
    last_removable,
    require_kept,
    require_next,
    require_position,
)
from dragoman.ledger.rows import FIELDS, Row, insert, linker, to_records, to_rows
from dragoman.ledger.write_errors import probe, unwritable
from dragoman.ledger.writer import Batch, Writer
from dragoman.model.body import Body, pack, unpack
from dragoman.model.record import Record

T = TypeVar("T")

_BLOCK: Final = 1000  #: rows read at once; they fit the processor cache
_VACUUM_PAGES: Final = 1000
_INSERT: Final = insert("records", (*FIELDS, "chain", "body", "link"))
#: Errors of access: the file itself may be sound.
_UNAVAILABLE: Final = (
    apsw.BusyError | apsw.CantOpenError | apsw.PermissionsError | apsw.ReadOnlyError
)
#: Errors that reading a damaged file can raise.
_DAMAGED: Final = (apsw.Error, CorruptData, ValueError, TypeError, OverflowError)


def _is_never_needed(record: Record) -> bool:
    return False


class SqliteLedger:
    """Opens or creates the ledger at a path; only one process can have it open.

    SQLite keeps `-wal` and `-shm` beside the file while it is open; `.head` is described in `head`.
    Raises LedgerDamaged if the file is damaged, and leaves it unchanged.
    """

    #: Whether needed records can be pinned; if not, retention stops at the first needed one.
    can_pin: ClassVar[bool] = True

    def __init__(
        self, path: str | Path, key: bytes = b"", trusted: tuple[int, str] | None = None
    ) -> None:
        """Open or create.

        Args:
            path: the file.
            key: the key of the hash chain (at most 64 bytes); empty: none.
            trusted: a record and its mark. If the ledger has it, only what follows is checked.

        """
        self.path = Path(path)
        self._trusted = trusted
        self._make_link = linker(key)
        make_folder(self.path.parent)
        self._head = HeadFile(self.path.with_name(self.path.name + ".head"))
        try:
            self._connection, extent = self._open()
        except BaseException:
            self._head.close()
            raise
        self._reader = layout.connect(self.path)
        self._files = FileIdentity(self.path, self.path.with_name(self.path.name + "-wal"))
        self._reader_lock = Lock()
        self._origin = extent.origin
        self._durable = (extent.last, extent.chain)
        self._durable_link = (extent.last, self._link)
        self._tail = self._durable  #: of the newest queued batch, durable or not
        self._looked_at = 0  #: the last pinned record that retention has looked at
        self._is_open = True
        self._writer = Writer(self._commit, self._on_failure)

    # opening

    def _open(self) -> tuple[apsw.Connection, Extent]:
        if not self.path.exists():
            if self._head.last_seq:
                raise self._at_risk("the file is missing")
            layout.create(self.path)
        elif self.path.stat().st_size == 0:  # creation is atomic, so the file was truncated
            raise self._at_risk("the file is empty")
        connection = None
        try:
            connection = layout.connect(self.path)
            extent = layout.check(connection, self._head.last_seq, self._trusted)
            layout.upgrade(connection, extent.last)
            self._link = layout.last_link(connection, extent.last)  #: of the newest durable record
        except Exception as error:
            if connection is not None:
                connection.close()
            raise self._refusal(error) from error
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._head.write(extent.last)
        return connection, extent

    def _refusal(self, error: Exception) -> Exception:
        """Convert an error at opening to the one the caller gets."""
        if isinstance(error, LedgerDamaged):
            return LedgerDamaged(f"{self.path}: {error}", error.first, error.last)
        if isinstance(error, LedgerError | _UNAVAILABLE):
            return LedgerError(f"{self.path}: {error}")
        if isinstance(error, _DAMAGED):
            return self._at_risk(str(error))
        return error

    def _at_risk(self, what: str) -> LedgerDamaged:
        last = max(1, self._head.last_seq)
        return LedgerDamaged(f"{self.path}: {what}; records up to {last} at risk", 1, last)

    # positions

    @property
    def last_seq(self) -> int:
        """The newest durable record; 0 when there is none."""
        return self._durable[0]

    def head(self) -> tuple[int, str]:
        """Return the newest durable record and its link in the hash chain, in hex."""
        seq, link = self._durable_link
        return seq, link.hex()

    def require_writable(self, is_thorough: bool = True) -> None:
        """Raise LedgerUnwritable if a write would fail now; writes no record.

        A check that is not thorough only looks at the files.
        """
        self._files.require_unchanged()
        if is_thorough:
            probe(self.path.parent)

    @property
    def first_seq(self) -> int:
        """The oldest record still kept; `last_seq + 1` when there is none."""
        return self._origin.first

    # writing

    async def append(self, entries: Sequence[Entry]) -> int:
        """Write a batch; when this returns, it is durable. Returns the last sequence number."""
        self._require_open()
        if not entries:
            return self.last_seq
        with self._writer.lock:
            last, checksum = self._tail
            require_next(entries, last)
            rows, bodies = [], []
            stored = to_rows([entry.record for entry in entries])
            for entry, (row, raw) in zip(entries, stored, strict=True):
                checksum = crc32(raw, checksum)
                blob = None if entry.body is None else pack(entry.body)
                rows.append((row, checksum, None if blob is None else crc32(blob), raw))
                if blob is not None:
                    bodies.append((row[0], blob))
            batch = Batch(rows, bodies, entries[-1].record.seq, checksum)
            self._writer.submit(batch)
            self._tail = (batch.last, checksum)
        return await batch.waiter

    def checkpoint(self, name: str, seq: int) -> None:
        """Store, durably, how far a named reader has read."""
        self._require_open()
        require_position(name, seq, self.last_seq)
        self._call(lambda: layout.move_checkpoint(self._connection, name, seq))

    def forget_checkpoint(self, name: str) -> None:
        """Remove the checkpoint of a reader that will not come back."""
        self._require_open()
        self._call(lambda: layout.move_checkpoint(self._connection, name, None))

    async def retain(
        self,
        *,
        before_at: float | None = None,
        keep_records: int | None = None,
        needed: Needed | None = None,
    ) -> int:
        """Remove the oldest records that no policy, job or reader needs; return `first_seq`."""
        self._require_open()
        if before_at is None and keep_records is None:
            return self.first_seq
        is_needed = needed or _is_never_needed
        while found := await self._between_commits(
            lambda: self._removable(before_at, keep_records)
        ):
            kept = [record.seq for record in found if is_needed(record)]
            if kept and not self.can_pin:
                if kept[0] > found[0].seq:
                    await self._between_commits(partial(self._remove, kept[0] - 1, []))
                break
            await self._between_commits(partial(self._remove, found[-1].seq, kept))
        await self._unpin(is_needed)
        while await self._between_commits(self._release_space):
            pass
        return self.first_seq

    async def _unpin(self, is_needed: Needed) -> None:
        """Remove pinned records that nobody needs any more.

        One call looks at one slice of them, the next call at the next, so that many pinned records
        cost no more than a few.
        """
        found = await self._between_commits(partial(self._pinned_after, self._looked_at))
        self._looked_at = found[-1].seq if len(found) == SLICE else 0
        if gone := [record.seq for record in found if not is_needed(record)]:
            await self._between_commits(partial(self._remove_pins, gone))

    def _pinned_after(self, seq: int) -> list[Record]:
        return to_records(pins.rows_after(self._connection, seq, SLICE))

    def _remove_pins(self, seqs: list[int]) -> None:
        with Transaction(self._connection):
            pins.unpin(self._connection, seqs)

    async def _between_commits(self, function: Callable[[], T]) -> T:
        """Run a write between two commits, and wait for it."""
        return await asyncio.wrap_future(self._writer.call(lambda: self._guarded(function)))

    async def close(self) -> None:
        """Write what is pending and close."""
        if self._is_open:
            self._is_open = False
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.stop()
        with self._reader_lock:
            self._reader.close()
        self._connection.close()
        self._head.close()

    def _commit(self, batches: list[Batch]) -> None:
        """Write several batches in one transaction (called by the writer thread)."""
        self._files.require_unchanged()
        self._guarded(lambda: self._insert(batches))
        self._durable = (batches[-1].last, batches[-1].chain)
        self._durable_link = (batches[-1].last, self._link)
        # The batch is durable, so a failure to write the head file must not fail it.
        with suppress(OSError):
            self._head.write(batches[-1].last)

    def _insert(self, batches: list[Batch]) -> None:
        rows = self._linked(batches)
        with Transaction(self._connection):
            self._write_rows(rows, [body for batch in batches for body in batch.bodies])
        self._link = rows[-1][-1]

    def _linked(self, batches: list[Batch]) -> list[Row]:
        """Return the rows of batches as they are stored: with both checksums and the link."""
        newest, link, rows = self._link, self._make_link, []
        for batch in batches:
            for row, checksum, of_body, raw in batch.rows:
                newest = link(raw, newest)
                rows.append((*row, checksum, of_body, newest))
        return rows

    def _write_rows(self, rows: Sequence[Row], bodies: Sequence[Row]) -> None:
        self._connection.executemany(_INSERT, rows)
        if bodies:
            self._connection.executemany("INSERT INTO bodies VALUES (?, ?)", bodies)

    def _on_failure(self) -> None:
        """Continue numbering from what is durable, after a commit failed."""
        self._tail = self._durable

    def _removable(self, before_at: float | None, keep_records: int | None) -> list[Record]:
        """Return the oldest records if they may be removed; not more than one slice."""
        first = self._origin.first
        policies = [min(first + SLICE - 1, self.last_seq)]
        if before_at is not None:
            policies.append(self._last_before(before_at, policies[0]))
        if keep_records is not None:
            policies.append(self.last_seq - keep_records)
        positions = layout.read_checkpoints(self._connection).values()
        last = last_removable(policies, positions)
        return to_records(reading.block(self._connection, first - 1, max(0, last + 1 - first)))

    def _remove(self, last: int, kept: Sequence[int]) -> None:
        """Remove the records up to `last`; pin those in `kept`."""
        origin = Origin(last + 1, self._connection.execute(reading.CHAIN, (last,)).get)
        before = (self._origin.chain, layout.link_before(self._connection))
        with Transaction(self._connection):
            pins.pin(self._connection, kept, before)
            layout.remove_before(self._connection, origin)
        self._origin = origin

    def _last_before(self, before_at: float, upto: int) -> int:
        query = "SELECT seq FROM records WHERE seq <= ? AND at >= ? ORDER BY seq LIMIT 1"
        found = self._connection.execute(query, (upto, before_at)).get
        return upto if found is None else found - 1

    def _release_space(self) -> bool:
        """Return some free pages to the file system; tell whether there are more.

        An eighth of the file stays free for the next records.
        """
        free = self._connection.pragma("freelist_count")
        spare = free - self._connection.pragma("page_count") // 8
        if spare <= 0:
            return False
        pages = min(spare, _VACUUM_PAGES)
        self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
        return bool(self._connection.pragma("freelist_count") < free)

    # reading

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Yield records after a position, in order."""
        self._require_open()
        require_kept(after, self.first_seq)
        return self._read(after, limit)

    def _read(self, after: int, limit: int | None) -> Iterator[Record]:
        while limit is None or limit > 0:
            rows = self.rows(after, _BLOCK if limit is None else min(limit, _BLOCK))
            if not rows:
                return
            yield from to_records(rows)
            after = rows[-1][0]
            limit = None if limit is None else limit - len(rows)

    def rows(self, after: int, limit: int) -> list[Row]:
        """Return records after a position as plain tuples in field order, verified."""
        return self._reading(lambda reader: reading.block(reader, after, limit))

    def mark(self, seq: int) -> str:
        """Return a text that identifies a record and all before it: its checksum and its link."""
        return self._reading(lambda reader: layout.read_mark(reader, seq))

    def pinned(self) -> list[Record]:
        """Return the records before `first_seq` that retention kept, in order."""
        return self._reading(lambda reader: to_records(pins.all_rows(reader)))

    def history(self, job: str) -> list[Record]:
        """Return every record of one job, pinned ones too, in order."""
        return self._reading(lambda reader: reading.history(reader, job, self.last_seq))

    def body(self, seq: int) -> Body | None:
        """Return the body of a record."""
        blob = self._reading(lambda reader: checked_blob(reader, seq))
        return None if blob is None else unpack(blob)

    def checkpoints(self) -> dict[str, int]:
        """Return every named reader's position."""
        return self._reading(layout.read_checkpoints)

    def verify(self) -> int:
        """Verify every record and body; return the number of records.

        Raises LedgerDamaged with the range. Takes about 15 s for a million records.
        """
        count, after = 0, 0
        while rows := self._reading(partial(reading.verified, after=after, limit=_BLOCK)):
            after = rows[-1][0]
            count += len(rows)
        return count

    # failing

    def _reading(self, function: Callable[[apsw.Connection], T]) -> T:
        """Run a read on one snapshot; on failure, name the damaged records."""
        with self._reader_lock:
            self._require_open()  # under the lock, so that `close` cannot run in between
            try:
                with Transaction(self._reader, "DEFERRED"):
                    return function(self._reader)
            except apsw.BusyError as error:
                raise LedgerError(f"{self.path}: {error}") from error
            except layout.NoSuchRecord as error:
                raise LedgerError(f"{self.path}: {error}") from None
            except _DAMAGED as error:
                raise self._damaged(self._reader, error) from error

    def _call(self, function: Callable[[], object]) -> None:
        self._writer.call(lambda: self._guarded(function)).result()

    def _guarded(self, function: Callable[[], T]) -> T:
        """Run a write; convert errors of SQLite to LedgerError."""
        try:
            return function()
        except (apsw.FullError, apsw.IOError) as error:
            raise unwritable(self.path, error) from error
        except (apsw.CorruptError, apsw.NotADBError, CorruptData) as error:
            raise self._damaged(self._connection, error) from error
        except (apsw.Error, TypeError, ValueError, OverflowError) as error:
            raise LedgerError(f"{self.path}: nothing was written: {error}") from error

    def _damaged(self, connection: apsw.Connection, error: Exception) -> LedgerDamaged:
        try:
            origin = layout.read_origin(connection)
            first, last = locate_damage(connection, origin.first, self.last_seq, origin.chain)
        except _DAMAGED:
            first, last = self.first_seq, max(self.first_seq, self.last_seq)
        return LedgerDamaged(
            f"{self.path}: records {first} to {last} are damaged: {error}", first, last
        )

    def _require_open(self) -> None:
        if not self._is_open:
            raise LedgerError(f"{self.path}: the ledger is closed")
