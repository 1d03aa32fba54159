"""The SQLite file: created atomically, checked, and migrated."""

from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.ledger.entries import entry, fill, record, run, with_ledger

from dragoman.ledger import layout
from dragoman.ledger.base import LedgerDamaged, LedgerError
from dragoman.ledger.damage import CorruptData
from dragoman.ledger.layout import Origin, Transaction
from dragoman.ledger.rows import FIELDS, WIDTHS, chain, column_definitions, to_row
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def connection(path: Path) -> apsw.Connection:
    layout.create(path)
    return layout.connect(path)


def test_a_new_file_is_sound_and_empty(connection: apsw.Connection) -> None:
    extent = layout.check(connection, acknowledged=0)
    assert (extent.origin, extent.last, extent.chain) == (Origin(1, 0), 0, 0)
    assert layout.read_checkpoints(connection) == {}


def test_a_witness_of_more_than_there_is_is_believed(connection: apsw.Connection) -> None:
    with pytest.raises(LedgerDamaged, match="records 1 to 9 were acknowledged") as caught:
        layout.check(connection, acknowledged=9)
    assert (caught.value.first, caught.value.last) == (1, 9)


def test_the_origin_is_one_row_and_of_a_known_format(connection: apsw.Connection) -> None:
    layout.write_origin(connection, Origin(5, 77))
    assert layout.read_origin(connection) == Origin(5, 77)
    connection.execute("UPDATE origin SET chain = 78")
    with pytest.raises(CorruptData):
        layout.read_origin(connection)


def test_a_file_of_another_format_is_refused_by_name(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FORMAT", 2)
    layout.write_origin(connection, Origin(1, 0))
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="the file has format 2, this version reads format 1"):
        layout.check(connection, acknowledged=0)


def test_a_transaction_that_fails_leaves_nothing(connection: apsw.Connection) -> None:
    def fail() -> None:
        with Transaction(connection):
            layout.write_checkpoint(connection, "spark", 5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not connection.in_transaction
    assert layout.read_checkpoints(connection) == {}


OLD_WIDTH = 24  #: an imagined version 0, before `count` and `strict`


def old_file(path: Path, records: list[Record]) -> None:
    """Create a file as an older version would have."""
    layout.create(path)
    names = [*FIELDS[:OLD_WIDTH], "version"]
    columns = ", ".join(f"{name} {column_definitions()[name]}" for name in names)
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE records")
    connection.execute(
        f"CREATE TABLE records ({columns}, chain INTEGER NOT NULL, body INTEGER) STRICT"
    )
    connection.execute("CREATE INDEX by_job ON records (seq >> 12, job) WHERE job != ''")
    checksum = 0
    for each in records:
        row: tuple[Any, ...] = to_row(each)
        checksum = chain(row, checksum)
        values = (*row[:OLD_WIDTH], each.version, checksum, None)
        connection.execute(f"INSERT INTO records VALUES ({', '.join('?' * 27)})", values)
    connection.close()


def test_rows_of_an_older_version_are_read_with_defaults(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WIDTHS, 0, OLD_WIDTH)
    old = [record(seq, version=0) for seq in range(1, 51)]
    old_file(path, old)

    def use(ledger: SqliteLedger) -> None:
        assert list(ledger.read()) == old
        assert all(each.strict is True and each.count == 0 for each in ledger.read())
        assert run(ledger.append([entry(51, count=7, strict=False)])) == 51

    def use_again(ledger: SqliteLedger) -> None:
        new = record(51, count=7, strict=False)
        assert list(ledger.read()) == [*old, new]
        assert ledger.history("j1") == [*old, new]
        assert ledger.verify() == 51

    with_ledger(path, use)
    with_ledger(path, use_again)


def test_damage_in_rows_of_an_older_version_is_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WIDTHS, 0, OLD_WIDTH)
    old_file(path, [record(seq, version=0) for seq in range(1, 51)])
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE records SET fault = 'x' WHERE seq = 20")
    connection.execute("DELETE FROM records WHERE seq = 30")
    connection.close()
    with pytest.raises(LedgerDamaged) as caught:
        SqliteLedger(path)
    assert (caught.value.first, caught.value.last) == (20, 31)


def test_a_file_of_a_newer_program_is_refused(path: Path) -> None:
    with_ledger(path, lambda ledger: fill(ledger, 3))
    connection = apsw.Connection(str(path))
    connection.execute("ALTER TABLE records ADD COLUMN mood TEXT NOT NULL DEFAULT ''")
    connection.close()
    with pytest.raises(LedgerError, match=r"\(mood\): use the newer version"):
        SqliteLedger(path)
