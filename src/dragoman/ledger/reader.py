"""Reads a ledger beside the broker that has it open: no lock, no change, the same checks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from dragoman.ledger import layout, pins, reading
from dragoman.ledger.base import LedgerError
from dragoman.ledger.damage import CorruptData
from dragoman.ledger.layout import Transaction
from dragoman.ledger.rows import Row, to_records
from dragoman.model.record import Record

_BLOCK: Final = 1000
_DAMAGE: Final = (apsw.Error, CorruptData, ValueError, TypeError, OverflowError)


class LedgerReader:
    """The records of a ledger file, up to the newest one when it was opened."""

    def __init__(self, path: Path) -> None:
        """Open. Raises LedgerError if there is no readable ledger."""
        self.path = path
        try:
            self._connection = layout.connect(path)
            self.first_seq = layout.read_origin(self._connection).first
            newest: int | None = self._connection.execute("SELECT max(seq) FROM records").get
        except apsw.Error as error:
            raise LedgerError(f"{path}: {error}") from error
        self.last_seq = newest or self.first_seq - 1

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Yield records after a position, in order, verified."""
        last = self.last_seq if limit is None else min(self.last_seq, after + limit)
        while after < last:
            rows = self.rows(after, min(_BLOCK, last - after))
            if not rows:
                return
            yield from to_records(rows)
            after = rows[-1][0]

    def rows(self, after: int, limit: int) -> list[Row]:
        """Return records after a position as plain tuples in field order, verified."""
        try:
            # One block, one short look at the file: the broker's log can shrink in between.
            with Transaction(self._connection, "DEFERRED"):
                return reading.block(self._connection, after, limit)
        except _DAMAGE as error:
            raise LedgerError(f"{self.path}: {error}") from error

    def pinned(self) -> list[Record]:
        """Return the records before `first_seq` that retention kept, in order."""
        try:
            with Transaction(self._connection, "DEFERRED"):
                return to_records(pins.all_rows(self._connection))
        except _DAMAGE as error:
            raise LedgerError(f"{self.path}: {error}") from error

    def mark(self, seq: int) -> str:
        """Return a text that identifies a record and all before it."""
        return layout.read_mark(self._connection, seq)

    def check(self) -> None:
        """Make the whole check of a start. Raises LedgerError."""
        try:
            layout.check_all(self._connection)
        except _DAMAGE as error:
            raise LedgerError(f"{self.path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
