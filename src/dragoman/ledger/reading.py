"""Reads of the SQLite ledger; each uses one snapshot and verifies checksums.

Functions of a connection; `sqlite` chooses the connection and handles failures.
"""

from typing import Final

import apsw

from dragoman.ledger import pins
from dragoman.ledger.damage import CorruptData, checked_blob
from dragoman.ledger.layout import CHUNK_BITS, read_origin, select_of_job
from dragoman.ledger.retention import require_kept
from dragoman.ledger.rows import FIELDS, Row, chain, chain_block, select, to_records
from dragoman.model.record import Record

_READ: Final = select(FIELDS, "FROM records WHERE seq > ? ORDER BY seq LIMIT ?")
CHAIN: Final = "SELECT chain FROM records WHERE seq = ?"
_BEFORE: Final = "(SELECT p.chain FROM records AS p WHERE p.seq = r.seq - 1)"
_HISTORY: Final = select_of_job(
    (*(f"r.{name}" for name in FIELDS), "r.chain", _BEFORE), "ORDER BY r.seq"
)


def block(reader: apsw.Connection, after: int, limit: int) -> list[Row]:
    """Return records after a position."""
    first = read_origin(reader).first
    require_kept(after, first)
    after = max(after, first - 1)
    rows: list[Row] = reader.execute(_READ, (after, limit)).fetchall()
    if not rows:
        return rows
    last = rows[-1][0]
    if last != after + len(rows):
        raise CorruptData(f"a record is missing between {after} and {last}")
    if chain_block(rows, _chain_of(reader, after)) != _chain_of(reader, last):
        _require_each(reader, rows)
    return rows


def _chain_of(reader: apsw.Connection, seq: int) -> int:
    """Return the checksum of a kept record, or of the one before the oldest."""
    origin = read_origin(reader)
    if seq == origin.first - 1:
        return origin.chain
    found: list[Row] = reader.execute(CHAIN, (seq,)).fetchall()
    if not found:
        raise CorruptData(f"record {seq} is missing")
    checksum: int = found[0][0]
    return checksum


def _require_each(reader: apsw.Connection, rows: list[Row]) -> None:
    """Check rows one by one, because some have an older version or a wrong checksum."""
    query = "SELECT chain FROM records WHERE seq BETWEEN ? AND ? ORDER BY seq"
    previous = _chain_of(reader, rows[0][0] - 1)
    stored = [found[0] for found in reader.execute(query, (rows[0][0], rows[-1][0]))]
    for row, checksum in zip(rows, stored, strict=True):
        _require_sound(row, checksum, previous)
        previous = checksum


def _require_sound(row: Row, checksum: int, previous: int) -> None:
    if chain(row, previous) != checksum:
        raise CorruptData(f"record {row[0]} does not match its checksum")


def history(reader: apsw.Connection, job: str, last: int) -> list[Record]:
    """Return every record of one job, pinned ones too, in order."""
    origin = read_origin(reader)
    rows = pins.rows_of_job(reader, job)
    for found in reader.execute(_HISTORY, (origin.first >> CHUNK_BITS, last >> CHUNK_BITS, job)):
        row, checksum, previous = found[:-2], found[-2], found[-1]
        _require_sound(row, checksum, origin.chain if previous is None else previous)
        rows.append(row)
    return to_records(rows)


def verified(reader: apsw.Connection, after: int, limit: int) -> list[Row]:
    """Return records after a position, with every checksum and body verified."""
    rows = block(reader, after, limit)
    if rows:
        _require_each(reader, rows)
    for row in rows:
        checked_blob(reader, row[0])
    return rows
