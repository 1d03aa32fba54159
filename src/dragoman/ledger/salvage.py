"""Reads what can still be read of a damaged ledger, record by record. Changes nothing.

A record that the database cannot give is taken from its sealed segment, if there is one. Segments
have no bodies.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.ledger import layout, pins
from dragoman.ledger.base import LedgerError
from dragoman.ledger.damage import CorruptData, RowChecker, checked_blob
from dragoman.ledger.head import read_head
from dragoman.ledger.manifest import SealedSegment, check_segment, read_manifest
from dragoman.ledger.rows import FIELDS, to_records
from dragoman.model.body import Body, unpack
from dragoman.model.record import Record
from dragoman.model.value import value

_DAMAGE = (apsw.Error, CorruptData, LedgerError, ValueError, TypeError, OverflowError)


@value
class Salvaged:
    """One position of a damaged ledger."""

    seq: int
    record: Record | None  #: None: lost
    body: Body | None = None
    is_body_lost: bool = False


@value
class SalvagedPins:
    """The pinned records that can be read, each with its packed body, and whether some cannot."""

    found: list[tuple[pins.Pin, bytes | None]]
    is_any_lost: bool


def salvage_pins(path: Path) -> SalvagedPins:
    """Return the sound pinned records of a damaged ledger."""
    connection = layout.connect(path)
    found: list[tuple[pins.Pin, bytes | None]] = []
    is_any_lost = False
    try:
        for pin in pins.all_pins(connection):
            blob = _pinned_blob(connection, pin)
            if pin.is_sound and (blob is not None or pin.body is None):
                found.append((pin, blob))
            else:
                is_any_lost = True
        pins.check_totals(connection)
    except _DAMAGE:
        is_any_lost = True
    finally:
        connection.close()
    return SalvagedPins(found, is_any_lost)


def _pinned_blob(connection: apsw.Connection, pin: pins.Pin) -> bytes | None:
    try:
        return checked_blob(connection, pin.seq)
    except _DAMAGE:
        return None


def salvage(path: Path, sealed: Path) -> Iterator[Salvaged]:
    """Yield every position from the oldest record to the newest, in order."""
    connection = layout.connect(path)
    try:
        first, before = _origin(connection)
        last = max(_last(connection), read_head(path.with_name(path.name + ".head")))
        checker = RowChecker(connection, first, before)
        segments = _Segments(sealed)
        for seq in range(first, last + 1):
            yield _read(connection, checker, segments, seq)
    finally:
        connection.close()


def _read(
    connection: apsw.Connection, checker: RowChecker, segments: "_Segments", seq: int
) -> Salvaged:
    row = checker.sound_row(seq)
    record = to_records([row])[0] if row is not None else segments.record(seq)
    if record is None:
        return Salvaged(seq, None)
    try:
        blob = checked_blob(connection, seq)
    except _DAMAGE:
        blob = None
    is_lost = blob is None and record.nbytes > 0
    return Salvaged(seq, record, None if blob is None else unpack(blob), is_lost)


def _origin(connection: apsw.Connection) -> tuple[int, int]:
    try:
        origin = layout.read_origin(connection)
    except _DAMAGE:
        return 1, 0
    return origin.first, origin.chain


def _last(connection: apsw.Connection) -> int:
    try:
        found: int | None = connection.execute("SELECT max(seq) FROM records").get
    except apsw.Error:
        found = None
    return found or 0


class _Segments:
    """Records of sealed segments; the segment read last stays in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._all = read_manifest(folder).segments
        except LedgerError:
            self._all = []
        self._loaded: tuple[SealedSegment, list[dict[str, object]]] | None = None

    def record(self, seq: int) -> Record | None:
        """Return a sealed record; None if no sound segment has it."""
        segment = next((s for s in self._all if s.first <= seq <= s.last), None)
        if segment is None:
            return None
        if self._loaded is None or self._loaded[0] is not segment:
            self._loaded = (segment, self._rows(segment))
        rows = self._loaded[1]
        return _record_of(rows[seq - segment.first]) if rows else None

    def _rows(self, segment: SealedSegment) -> list[dict[str, object]]:
        if check_segment(self._folder, segment):
            return []
        table = pq.read_table(self._folder / segment.file)
        for number, column in enumerate(table.schema):
            if pa.types.is_timestamp(column.type):
                table = table.set_column(number, column.name, table[column.name].cast(pa.int64()))
        rows: list[dict[str, object]] = table.to_pylist()
        return rows


def _record_of(row: dict[str, Any]) -> Record:
    """Build a record from a row of a segment, whose instants are microseconds or null."""
    instants = {name: (row[name] or 0) / 1e6 for name in ("at", "submitted_at", "deadline_at")}
    return Record(**{name: row[name] for name in FIELDS if name in row} | instants)
