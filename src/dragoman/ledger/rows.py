"""Records as rows: column names and types, both conversions, and the chained checksum.

The checksum of a row is the CRC32 of its columns, started from the checksum of the row before it.
So one pass over a range proves that every column is unchanged and no row is missing, and a block of
rows needs two calls instead of two per row.

A row's checksum covers the columns of its version (`WIDTHS`). Columns that were added later hold
defaults in old rows and are not covered there.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from hashlib import blake2b
from math import isnan
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec

from dragoman.ledger.base import LedgerError
from dragoman.model.record import Record

Row: TypeAlias = tuple[Any, ...]

FIELDS: Final = tuple(field.name for field in fields(Record))
#: Record version -> number of leading columns. Add entries; never change one.
WIDTHS: Final[dict[int, int]] = {1: 27, 2: 29}

#: SQL defaults for columns that an older row lacks.
DEFAULTS: Final = {
    field.name: f"'{field.default}'" if field.type is str else f"{field.default + 0}"
    for field in fields(Record)
    if field.default is not MISSING
}

#: Bytes of a link: 128 bits make a second preimage infeasible.
LINK_SIZE: Final = 16
#: The link before the first one.
NO_LINK: Final = bytes(LINK_SIZE)

_SQL_TYPES: Final[dict[object, str]] = {
    int: "INTEGER",
    float: "REAL",
    str: "TEXT",
    bool: "INTEGER",
}
_VALUES: Final[Callable[[Record], Row]] = attrgetter(*FIELDS)


def _places(kind: type) -> list[int]:
    """Return which columns have a type."""
    return [at for at, field in enumerate(fields(Record)) if field.type is kind]


_FLOATS_AT: Final = _places(float)
_FLAGS_AT: Final = _places(bool)
_TEXTS: Final[Callable[[Row], tuple[str, ...]]] = itemgetter(*_places(str))
_NUMBERS: Final[Callable[[Row], tuple[int, ...]]] = itemgetter(*_places(int))
_INSTANTS: Final[Callable[[Row], tuple[float, ...]]] = itemgetter(*_FLOATS_AT)
_flat: Final = itertools.chain.from_iterable
_LARGEST: Final = 2**63 - 1
_ONLY_INT: Final = {int}
_VERSION_AT: Final = FIELDS.index("version")
_set_strict: Final[Callable[[Record, bool], None]] = vars(Record)["strict"].__set__
_encode: Final = msgspec.msgpack.Encoder().encode


def select(columns: Sequence[str], rest: str) -> str:
    """Return a query for columns. They are our own names; values of others are always bound."""
    return " ".join(("SELECT", ", ".join(columns), rest))


def insert(table: str, columns: Sequence[str]) -> str:
    """Return a statement that inserts one row with these columns."""
    marks = ", ".join("?" * len(columns))
    return " ".join(("INSERT INTO", table, f"({', '.join(columns)}) VALUES ({marks})"))


def column_definitions() -> dict[str, str]:
    """Return the SQL definition of every column, in field order."""
    found = {"seq": "INTEGER PRIMARY KEY"}
    for field in fields(Record)[1:]:
        default = f" DEFAULT {DEFAULTS[field.name]}" if field.name in DEFAULTS else ""
        found[field.name] = f"{_SQL_TYPES[field.type]} NOT NULL{default}"
    return found


def to_row(record: Record) -> Row:
    """Convert a record to the values SQLite returns, so that checksums agree."""
    try:
        [(row, _)] = _stored((record,))
    except (TypeError, ValueError) as error:
        raise LedgerError(f"record {record.seq} cannot be stored: {error}") from None
    return row


def to_rows(records: Sequence[Record]) -> list[tuple[Row, bytes]]:
    """Convert several records, each with its `encoded` bytes.

    Validating all together costs half of validating each.
    """
    try:
        return _stored(records)
    except (TypeError, ValueError):
        for record in records:
            to_row(record)  # raises an error that names the record and the problem
        raise


def _stored(records: Sequence[Record]) -> list[tuple[Row, bytes]]:
    """Convert records; refuse values that SQLite would refuse or silently convert."""
    rows = [_as_row(record) for record in records]
    "".join(_flat(map(_TEXTS, rows)))
    numbers = [*_flat(map(_NUMBERS, rows))]
    if set(map(type, numbers)) != _ONLY_INT:
        raise TypeError("a number is not an int")
    if max(numbers) > _LARGEST or min(numbers) < -_LARGEST - 1:
        raise ValueError("a number has more than 64 bits")
    if any(map(isnan, _flat(map(_INSTANTS, rows)))):
        raise ValueError("an instant is not a number")
    # Encoding refuses text with lone surrogates.
    return [(row, encoded(row)) for row in rows]


def _as_row(record: Record) -> Row:
    row = [*_VALUES(record)]
    for at in _FLOATS_AT:
        row[at] += 0.0  # converts an int to a float and -0.0 to 0.0, as SQLite does
    for at in _FLAGS_AT:
        row[at] = int(row[at])
    return tuple(row)


def to_records(rows: Sequence[Row]) -> list[Record]:
    """Convert checked rows to records.

    SQLite has no booleans. Setting the slot of a new record costs a fifth of rebuilding each row
    with the right value, and recovery reads every row.
    """
    records = list(itertools.starmap(Record, rows))
    for record in records:
        _set_strict(record, record.strict == 1)
    return records


def chain(row: Row, previous: int) -> int:
    """Return the checksum of a row that follows one whose checksum is `previous`."""
    return crc32(encoded(row), previous)


def encoded(row: Row) -> bytes:
    """Return the bytes that the checksum and the link of a row are computed from."""
    return _encode(row[: WIDTHS.get(row[_VERSION_AT], len(row))])


def linker(key: bytes = b"") -> Callable[[bytes, bytes], bytes]:
    """Return a function that computes the link of a row (as `encoded`) from the link before it.

    A checksum detects accidents; a link detects tampering. No other rows, and no other order of
    rows, have the same links. With a key, only its owner can compute links.
    """
    # Copying a new hash object costs half of creating one.
    begun = blake2b(digest_size=LINK_SIZE, key=key)

    def link(raw: bytes, previous: bytes) -> bytes:
        hashed = begun.copy()
        hashed.update(previous + raw)
        return hashed.digest()

    return link


def chain_block(rows: Sequence[Row], previous: int) -> int:
    """Return the checksum of the last of several rows of the newest version."""
    # A MessagePack array is a header followed by its items, so the bytes after the header are
    # those that `chain` hashes row by row.
    header = 1 if len(rows) < 16 else 3 if len(rows) < 65536 else 5
    return crc32(memoryview(_encode(rows))[header:], previous)
