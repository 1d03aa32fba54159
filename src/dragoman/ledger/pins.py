"""Pinned records of the SQLite ledger: those that retention kept, before the oldest of `records`.

A pinned record stands alone: its encoded row, its checksum and link, and those of the record before
it. So it can be verified although its neighbours are gone. Its body stays in `bodies`.

`pin_totals` (one row) has the number of pinned records and the sum of their checksums, so that a
missing one is noticed.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

import apsw
import msgspec

from dragoman.ledger.damage import CorruptData
from dragoman.ledger.rows import FIELDS, Row, encoded, select
from dragoman.model.value import value

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS pinned (seq INTEGER PRIMARY KEY, job TEXT NOT NULL, row BLOB NOT NULL,
    before INTEGER NOT NULL, chain INTEGER NOT NULL, body INTEGER, before_link BLOB, link BLOB)
    STRICT;
CREATE INDEX IF NOT EXISTS pinned_by_job ON pinned (job) WHERE job != '';
CREATE TABLE IF NOT EXISTS pin_totals (count INTEGER NOT NULL, total INTEGER NOT NULL,
    crc INTEGER NOT NULL) STRICT;
"""
_SELECT: Final = "SELECT seq, row, before, chain, body, before_link, link FROM pinned "
_RECORD: Final = select((*FIELDS, "chain", "link", "body"), "FROM records WHERE seq = ?")
_INSERT: Final = "INSERT INTO pinned VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_JOB_AT: Final = FIELDS.index("job")
_decode: Final = msgspec.msgpack.Decoder(list[object]).decode


@value
class Pin:
    """One pinned record, with what is needed to verify it."""

    seq: int
    raw: bytes  #: the encoded row
    before: int  #: checksum of the record before it
    chain: int
    body: int | None  #: checksum of its body
    before_link: bytes | None
    link: bytes | None

    @property
    def is_sound(self) -> bool:
        """Whether the row matches its checksum."""
        return crc32(self.raw, self.before) == self.chain

    def row(self) -> Row:
        """Return the row in field order; raises CorruptData if it does not match its checksum."""
        if self.is_sound:
            row = tuple(_decode(self.raw))
            if row[0] == self.seq:
                return row
        raise CorruptData(f"the pinned record {self.seq} does not match its checksum")


def prepare(connection: apsw.Connection) -> None:
    """Create the tables if they are missing."""
    connection.execute(_TABLES)
    if connection.execute("SELECT count(*) FROM pin_totals").get == 0:
        connection.execute("INSERT INTO pin_totals VALUES (?, ?, ?)", _totals_row(0, 0))


def has_pins(connection: apsw.Connection) -> bool:
    """Tell whether a file has the tables; one of an older version has none until it is opened."""
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'pin_totals'"
    return bool(connection.execute(query).get)


def pin(connection: apsw.Connection, seqs: Iterable[int], before: tuple[int, bytes | None]) -> None:
    """Pin records that are about to be removed from `records`.

    `before` is the checksum and the link of the record before the oldest one there.
    """
    put(connection, [_pin_of(connection, seq, before) for seq in seqs])


def _pin_of(connection: apsw.Connection, seq: int, before: tuple[int, bytes | None]) -> Pin:
    stored: list[Row] = connection.execute(_RECORD, (seq,)).fetchall()
    *row, chain, link, body = stored[0]
    query = "SELECT chain, link FROM records WHERE seq = ?"
    found: list[Row] = connection.execute(query, (seq - 1,)).fetchall()
    previous, previous_link = found[0] if found else before
    return Pin(seq, encoded(tuple(row)), previous, chain, body, previous_link, link)


def put(connection: apsw.Connection, pins: Iterable[Pin]) -> None:
    """Write pinned records; their bodies are in `bodies`."""
    for pin in pins:
        values = (pin.raw, pin.before, pin.chain, pin.body, pin.before_link, pin.link)
        connection.execute(_INSERT, (pin.seq, pin.row()[_JOB_AT], *values))
        _add_to_totals(connection, 1, pin.chain)


def unpin(connection: apsw.Connection, seqs: Iterable[int]) -> None:
    """Remove pinned records with their bodies."""
    for seq in seqs:
        chain = connection.execute("SELECT chain FROM pinned WHERE seq = ?", (seq,)).get
        connection.execute("DELETE FROM pinned WHERE seq = ?", (seq,))
        connection.execute("DELETE FROM bodies WHERE seq = ?", (seq,))
        _add_to_totals(connection, -1, -chain)


def all_pins(connection: apsw.Connection) -> Iterator[Pin]:
    """Yield every pinned record, in order."""
    if has_pins(connection):
        for found in connection.execute(_SELECT + "ORDER BY seq"):
            yield Pin(*found)


def rows_after(connection: apsw.Connection, seq: int, limit: int) -> list[Row]:
    """Return the rows of pinned records after a position, verified."""
    query = _SELECT + "WHERE seq > ? ORDER BY seq LIMIT ?"
    return [Pin(*found).row() for found in connection.execute(query, (seq, limit))]


def all_rows(connection: apsw.Connection) -> list[Row]:
    """Return the rows of all pinned records, in order, verified."""
    return [pin.row() for pin in all_pins(connection)]


def rows_of_job(connection: apsw.Connection, job: str) -> list[Row]:
    """Return the rows of one job's pinned records, verified."""
    if not job or not has_pins(connection):
        return []
    query = _SELECT + "WHERE job = ? AND job != '' ORDER BY seq"
    return [Pin(*found).row() for found in connection.execute(query, (job,))]


def check_totals(connection: apsw.Connection) -> None:
    """Raise CorruptData if a pinned record is missing."""
    if has_pins(connection):
        query = "SELECT count(*), coalesce(sum(chain), 0) FROM pinned"
        if connection.execute(query).fetchall() != [_read_totals(connection)]:
            raise CorruptData("pinned records are missing")


def _read_totals(connection: apsw.Connection) -> tuple[int, int]:
    stored: list[Row] = connection.execute("SELECT count, total, crc FROM pin_totals").fetchall()
    if len(stored) != 1 or stored[0] != _totals_row(*stored[0][:2]):
        raise CorruptData("the table `pin_totals` is damaged")
    return stored[0][0], stored[0][1]


def _add_to_totals(connection: apsw.Connection, count: int, total: int) -> None:
    old_count, old_total = _read_totals(connection)
    row = _totals_row(old_count + count, old_total + total)
    connection.execute("UPDATE pin_totals SET count = ?, total = ?, crc = ?", row)


def _totals_row(count: int, total: int) -> tuple[int, int, int]:
    return count, total, crc32(f"{count}\n{total}".encode())
