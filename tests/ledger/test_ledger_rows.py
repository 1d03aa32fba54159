"""Records as rows, and the chained checksum."""

from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledger.entries import record, varied

from dragoman.ledger.rows import (
    DEFAULTS,
    FIELDS,
    WIDTHS,
    Row,
    chain,
    chain_block,
    column_definitions,
    to_records,
    to_row,
)
from dragoman.model.record import VERSION, Kind, Record


def test_columns_are_the_fields_of_a_record_in_order() -> None:
    assert tuple(column_definitions()) == FIELDS == tuple(each.name for each in fields(Record))
    assert column_definitions()["seq"] == "INTEGER PRIMARY KEY"
    assert column_definitions()["at"] == "REAL NOT NULL"
    assert column_definitions()["principal"] == "TEXT NOT NULL DEFAULT 'anonymous'"
    assert column_definitions()["strict"] == "INTEGER NOT NULL DEFAULT 1"


def test_every_version_has_a_width_and_the_newest_covers_all_columns() -> None:
    assert set(WIDTHS) == set(range(1, VERSION + 1))
    assert WIDTHS[VERSION] == len(FIELDS)


def test_only_what_every_record_must_have_lacks_a_default() -> None:
    assert set(FIELDS) - set(DEFAULTS) == {"seq", "at", "kind"}


def test_a_record_becomes_a_row_and_comes_back() -> None:
    full = Record(*_distinct())
    relaxed = replace(full, strict=False)
    found = to_records([to_row(full), to_row(relaxed)])
    assert found == [full, relaxed]
    assert [each.strict for each in found] == [True, False]
    assert all(type(each.strict) is bool for each in found)


def test_a_row_holds_what_sqlite_would_give_back() -> None:
    row = to_row(record(1, at=5, kind=Kind.ENDED, submitted_at=-0.0))
    assert type(row[1]) is float
    assert str(row[FIELDS.index("submitted_at")]) == "0.0"
    assert row[FIELDS.index("strict")] == 1
    assert type(row[FIELDS.index("strict")]) is int


@pytest.mark.parametrize("place", range(len(FIELDS)))
def test_the_checksum_covers_every_column(place: int) -> None:
    row: Row = to_row(Record(*_distinct()))
    value = row[place]
    changed = value + "x" if isinstance(value, str) else value + 1
    other = (*row[:place], changed, *row[place + 1 :])
    assert chain(other, 7) != chain(row, 7)


def test_the_checksum_depends_on_the_row_before() -> None:
    row = to_row(record(1))
    assert chain(row, 1) != chain(row, 2)


@given(count=st.sampled_from([1, 2, 15, 16, 17, 1000]), seed=st.integers(0, 2**32 - 1))
def test_a_block_has_the_checksum_of_its_rows_one_by_one(count: int, seed: int) -> None:
    start = Random(seed).randrange(1, 10**9)
    rows = [to_row(varied(start + offset).record) for offset in range(count)]
    expected = seed
    for row in rows:
        expected = chain(row, expected)
    assert chain_block(rows, seed) == expected


def _distinct() -> list[Any]:
    """One value per field, each different from the others."""
    samples: dict[object, Any] = {int: 10, float: 0.5, str: "t", bool: True}
    kinds = [each.type for each in fields(Record)]
    values = [
        f"t{n}" if kind is str else samples[kind] + (n if kind is not bool else 0)
        for n, kind in enumerate(kinds)
    ]
    values[FIELDS.index("strict")] = True
    return [*values[: FIELDS.index("version")], VERSION]
