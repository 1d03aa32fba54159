"""Reads on one snapshot, with verified checksums."""

from pathlib import Path

import apsw
import pytest
from tests.ledger.entries import fill, run, seqs, varied, with_ledger

from dragoman.ledger import reading
from dragoman.ledger.base import LedgerError
from dragoman.ledger.damage import CorruptData

COUNT = 60


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    with_ledger(tmp_path / "ledger.db", lambda ledger: fill(ledger, COUNT))
    return apsw.Connection(str(tmp_path / "ledger.db"))


def test_a_block_starts_anywhere_and_ends_at_its_limit(connection: apsw.Connection) -> None:
    assert [row[0] for row in reading.block(connection, 0, 3)] == [1, 2, 3]
    assert [row[0] for row in reading.block(connection, 58, 3)] == [59, 60]
    assert reading.block(connection, 60, 3) == []


def test_a_block_is_checked_against_the_row_before_it(connection: apsw.Connection) -> None:
    connection.execute("UPDATE records SET chain = 1 WHERE seq = 10")
    with pytest.raises(CorruptData, match="record 11 does not match"):
        reading.block(connection, 10, 5)
    assert len(reading.block(connection, 11, 5)) == 5


@pytest.mark.parametrize("gone", [10, 12])
def test_a_gap_is_an_error_not_a_shorter_answer(connection: apsw.Connection, gone: int) -> None:
    connection.execute("DELETE FROM records WHERE seq = ?", (gone,))
    with pytest.raises(CorruptData, match="missing"):
        reading.block(connection, 10, 5)


def test_the_oldest_kept_record_is_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with_ledger(path, lambda ledger: fill(ledger, COUNT))
    with_ledger(path, lambda ledger: run(ledger.retain(keep_records=20)))
    connection = apsw.Connection(str(path))
    assert reading.block(connection, 0, 1)[0][0] == 41
    assert seqs(reading.history(connection, "j1", COUNT)) == [41, 51]
    with pytest.raises(LedgerError, match="were removed"):
        reading.block(connection, 39, 1)
    connection.execute("UPDATE records SET detail = '' WHERE seq = 41")
    with pytest.raises(CorruptData, match="record 41"):
        reading.block(connection, 0, 1)
    with pytest.raises(CorruptData, match="record 41"):
        reading.history(connection, "j1", COUNT)


def test_a_history_uses_the_index_and_not_the_table(connection: apsw.Connection) -> None:
    plan = connection.execute(f"EXPLAIN QUERY PLAN {reading._HISTORY}", (1, COUNT, "j1")).fetchall()
    steps = " / ".join(str(step[3]) for step in plan)
    assert "SEARCH r USING INDEX by_job (<expr>=? AND job=?)" in steps
    assert reading.history(connection, "j3", COUNT) == [
        varied(seq).record for seq in range(3, COUNT, 10)
    ]


def test_a_thorough_read_looks_at_every_checksum_and_body(connection: apsw.Connection) -> None:
    assert len(reading.verified(connection, 0, COUNT)) == COUNT
    connection.execute("UPDATE records SET chain = 1 WHERE seq = 10")
    assert len(reading.block(connection, 0, COUNT)) == COUNT
    with pytest.raises(CorruptData, match="record 10"):
        reading.verified(connection, 0, COUNT)
