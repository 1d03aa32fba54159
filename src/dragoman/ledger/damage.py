"""Locate the damaged records of a ledger file. Reads only; repairs nothing.

Slow, row by row: used only after damage was detected. A row is sound if it can be read, its
checksum follows from the row before it, and its body matches its checksum.
"""

from typing import Final
from zlib import crc32

import apsw

from dragoman.ledger.rows import DEFAULTS, FIELDS, Row, chain, select

_BODY: Final = "SELECT body, blob FROM records LEFT JOIN bodies USING (seq) WHERE seq = ?"
_PINNED_BODY: Final = "SELECT body, blob FROM pinned LEFT JOIN bodies USING (seq) WHERE seq = ?"


class CorruptData(Exception):
    """Stored data does not match its checksum."""


def locate_damage(
    connection: apsw.Connection, first: int, last: int, before: int
) -> tuple[int, int]:
    """Return the oldest and the newest damaged record between two positions.

    `before` is the checksum that the first record starts from. If every record and body is sound
    (the damage is in an index or in free space), the whole range is returned.
    """
    checker = RowChecker(connection, first, before)
    forwards = range(first, last + 1)
    oldest = next((seq for seq in forwards if not checker.is_sound(seq)), None)
    if oldest is None:
        return first, max(first, last)
    newest = next(seq for seq in reversed(forwards) if not checker.is_sound(seq))
    return oldest, newest


def checked_blob(connection: apsw.Connection, seq: int) -> bytes | None:
    """Return the packed body of a record; None if it has none. Raises CorruptData."""
    found: list[Row] = connection.execute(_BODY, (seq,)).fetchall()
    if not found and seq < (connection.execute("SELECT first FROM origin").get or 0):
        found = connection.execute(_PINNED_BODY, (seq,)).fetchall()
    if not found or found[0] == (None, None):
        return None
    crc, blob = found[0]
    if not isinstance(blob, bytes) or crc != crc32(blob):
        raise CorruptData(f"the body of record {seq} does not match its checksum")
    return blob


class RowChecker:
    """Checks single rows of a file of any record version."""

    def __init__(self, connection: apsw.Connection, first: int, before: int) -> None:
        self._connection = connection
        self._first = first
        self._before = before
        present = {row[1] for row in connection.execute("PRAGMA table_info(records)")}
        columns = [name if name in present else DEFAULTS[name] for name in FIELDS]
        self._query = select((*columns, "chain"), "FROM records WHERE seq = ?")

    def is_sound(self, seq: int) -> bool:
        """Tell whether a row and its body are as they were written."""
        try:
            checked_blob(self._connection, seq)
        except (apsw.Error, CorruptData, ValueError, TypeError, OverflowError):
            return False
        return self.sound_row(seq) is not None

    def sound_row(self, seq: int) -> Row | None:
        """Return a row that matches its checksum; None if it does not or cannot be read."""
        try:
            row, stored = self._row(seq)
            previous = self._before if seq == self._first else self._row(seq - 1)[1]
            return row if chain(row, previous) == stored else None
        except (apsw.Error, LookupError, ValueError, TypeError, OverflowError):
            return None

    def _row(self, seq: int) -> tuple[Row, int]:
        found: list[Row] = self._connection.execute(self._query, (seq,)).fetchall()
        if not found:
            raise LookupError(seq)
        return found[0][:-1], found[0][-1]
