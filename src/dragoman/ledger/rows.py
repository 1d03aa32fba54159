"""How a record is a row: column names and types, both conversions, and the chained checksum.

Each row carries the CRC32 of its own columns, started from the checksum of the row before it.
So one pass over any stretch proves at once that every column of every row is what was written
and that no row is missing, and a block of rows is checked with two calls instead of two per row.

A row's checksum covers the columns that its version had (`WIDTHS`); columns that were added
later hold defaults in old rows and are not covered there.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from hashlib import blake2b
from math import isnan
from operator import attrgetter
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from dragoman.ledger.base import LedgerError
from dragoman.model.record import Record

Row: TypeAlias = tuple[Any, ...]

FIELDS: Final = tuple(field.name for field in fields(Record))
#: How many leading columns a row of each version has. Append to it; never change an entry.
WIDTHS: Final[dict[int, int]] = {1: 27}

#: What a row that lacks a column is read as, in SQL.
DEFAULTS: Final = {
    field.name: f"'{field.default}'" if field.type is str else f"{field.default + 0}"
    for field in fields(Record)
    if field.default is not MISSING
}

#: Bytes of a link: nobody finds a second row for one of 128 bits.
LINK_SIZE: Final = 16
#: What the first link follows.
NO_LINK: Final = bytes(LINK_SIZE)

_SQL_TYPES: Final[dict[object, str]] = {
    int: "INTEGER",
    float: "REAL",
    str: "TEXT",
    bool: "INTEGER",
}
_MIDDLE: Final[Callable[[Record], Row]] = attrgetter(*FIELDS[2:22])
_TEXTS: Final[Callable[[Record], tuple[str, ...]]] = attrgetter(
    *(field.name for field in fields(Record) if field.type is str)
)
_NUMBERS: Final[Callable[[Record], tuple[int, ...]]] = attrgetter(
    *(field.name for field in fields(Record) if field.type is int)
)
_INSTANTS: Final[Callable[[Record], tuple[float, ...]]] = attrgetter(
    *(field.name for field in fields(Record) if field.type is float)
)
_flat: Final = itertools.chain.from_iterable
_LARGEST: Final = 2**63 - 1
_ONLY_INT: Final = {int}
_VERSION_AT: Final = FIELDS.index("version")
_set_strict: Final[Callable[[Record, bool], None]] = vars(Record)["strict"].__set__
_encode: Final = msgspec.msgpack.Encoder().encode


def column_definitions() -> dict[str, str]:
    """Return the SQL definition of every column, in field order."""
    found = {"seq": "INTEGER PRIMARY KEY"}
    for field in fields(Record)[1:]:
        default = f" DEFAULT {DEFAULTS[field.name]}" if field.name in DEFAULTS else ""
        found[field.name] = f"{_SQL_TYPES[field.type]} NOT NULL{default}"
    return found


def to_row(record: Record) -> Row:
    """Write a record as the values SQLite gives back, so that both have one checksum."""
    try:
        [(row, _)] = _stored((record,))
    except (TypeError, ValueError) as error:
        raise LedgerError(f"record {record.seq} cannot be stored: {error}") from None
    return row


def to_rows(records: Sequence[Record]) -> list[tuple[Row, bytes]]:
    """Write several records, each with its `encoded` bytes.

    Looking at all of them together costs half of looking at each.
    """
    try:
        return _stored(records)
    except (TypeError, ValueError):
        for record in records:
            to_row(record)  # says which it is, and what is wrong with it
        raise


def _stored(records: Sequence[Record]) -> list[tuple[Row, bytes]]:
    """Write records; refuse what SQLite would refuse or quietly turn into something else."""
    "".join(_flat(map(_TEXTS, records)))
    numbers = [*_flat(map(_NUMBERS, records))]
    if set(map(type, numbers)) != _ONLY_INT:
        raise TypeError("a number is not an int")
    if max(numbers) > _LARGEST or min(numbers) < -_LARGEST - 1:
        raise ValueError("a number has more than 64 bits")
    if any(map(isnan, _flat(map(_INSTANTS, records)))):
        raise ValueError("an instant is not a number")
    # Encoding refuses the texts that have no bytes.
    return [(row, encoded(row)) for row in map(_as_row, records)]


def _as_row(record: Record) -> Row:
    # Adding 0.0 makes a float of an int and a plain zero of a negative one, as SQLite does.
    return (
        record.seq,
        record.at + 0.0,
        *_MIDDLE(record),
        record.submitted_at + 0.0,
        record.deadline_at + 0.0,
        record.count,
        int(record.strict),
        record.version,
    )


def to_records(rows: Sequence[Row]) -> list[Record]:
    """Read rows that were checked.

    SQLite has no booleans. Setting the slot of a record that nobody has seen yet costs a fifth
    of taking every row apart to put the right value in, and recovery reads every row.
    """
    records = list(itertools.starmap(Record, rows))
    for record in records:
        _set_strict(record, record.strict == 1)
    return records


def chain(row: Row, previous: int) -> int:
    """Return the checksum of a row that follows one whose checksum is `previous`."""
    return crc32(encoded(row), previous)


def encoded(row: Row) -> bytes:
    """Return the bytes of a row that its checksum and its link are made of."""
    return _encode(row[: WIDTHS.get(row[_VERSION_AT], len(row))])


def linker(key: bytes = b"") -> Callable[[bytes, bytes], bytes]:
    """Return what makes the link of a row (as `encoded`) out of it and the link before it.

    A checksum finds accidents; a link finds hands. Nobody can make another row, or another order
    of rows, that has the links of these; with a key, nobody without it can make links at all.
    """
    # A copy of a hash that was begun costs half of beginning one.
    begun = blake2b(digest_size=LINK_SIZE, key=key)

    def link(raw: bytes, previous: bytes) -> bytes:
        hashed = begun.copy()
        hashed.update(previous + raw)
        return hashed.digest()

    return link


def chain_block(rows: Sequence[Row], previous: int) -> int:
    """Return the checksum of the last of several rows of the newest version, in one go."""
    # A MessagePack array is its header and then its items, so what follows the header is
    # exactly what `chain` would have seen row by row.
    header = 1 if len(rows) < 16 else 3 if len(rows) < 65536 else 5
    return crc32(memoryview(_encode(rows))[header:], previous)
