"""Locating the damaged records of a file."""

from pathlib import Path

import apsw
import pytest
from tests.ledger.entries import fill, varied, with_ledger

from dragoman.ledger.damage import CorruptData, checked_blob, locate_damage
from dragoman.model.body import pack

COUNT = 60


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    with_ledger(tmp_path / "ledger.db", lambda ledger: fill(ledger, COUNT))
    return apsw.Connection(str(tmp_path / "ledger.db"))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE records SET kind = 'x' WHERE seq = 7", (7, 7)),
        ("UPDATE records SET kind = 'x' WHERE seq IN (7, 50)", (7, 50)),
        ("UPDATE records SET chain = 1 WHERE seq = 7", (7, 8)),
        ("DELETE FROM records WHERE seq = 7", (7, 8)),
        ("DELETE FROM records WHERE seq = 60", (60, 60)),
        ("DELETE FROM bodies WHERE seq = 9", (9, 9)),
        ("UPDATE records SET body = NULL WHERE seq = 9", (9, 9)),
        ("DROP TABLE bodies", (1, 60)),
        ("DROP INDEX by_job", (1, 60)),
    ],
)
def test_the_range_holds_every_damaged_record(
    connection: apsw.Connection, statement: str, expected: tuple[int, int]
) -> None:
    connection.execute(statement)
    assert locate_damage(connection, 1, COUNT, 0) == expected


def test_an_empty_stretch_is_reported_as_where_it_would_begin(connection: apsw.Connection) -> None:
    assert locate_damage(connection, 61, 60, 0) == (61, 61)


def test_a_body_is_what_was_written_or_an_error(connection: apsw.Connection) -> None:
    body = varied(9).body
    assert body is not None
    assert checked_blob(connection, 9) == pack(body)
    assert checked_blob(connection, 8) is None
    assert checked_blob(connection, 999) is None
    connection.execute("UPDATE bodies SET blob = x'00' WHERE seq = 9")
    with pytest.raises(CorruptData, match="the body of record 9"):
        checked_blob(connection, 9)
