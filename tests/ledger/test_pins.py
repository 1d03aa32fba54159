"""Pinned records stand alone: each is verified for itself, and a missing one is noticed."""

from pathlib import Path

import apsw
import pytest
from tests.ledger.entries import fill, run, seqs, varied, with_ledger

from dragoman.ledger import pins
from dragoman.ledger.audit import audit
from dragoman.ledger.backup import backup
from dragoman.ledger.base import LedgerDamaged, LedgerError
from dragoman.ledger.checks import problems_of
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.reader import LedgerReader
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Record

PINNED = [3, 13, 23, 33, 43]


def is_of_j3(record: Record) -> bool:
    return record.job == "j3"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with 100 records: 50 removed, five of them pinned."""

    def cut(ledger: SqliteLedger) -> None:
        fill(ledger, 100)
        run(ledger.retain(keep_records=50, needed=is_of_j3))

    with_ledger(tmp_path / LEDGER_FILE, cut)
    return tmp_path


def change(data: Path, query: str) -> None:
    connection = apsw.Connection(str(data / LEDGER_FILE))
    connection.execute(query)
    connection.close()


def test_pinned_records_survive_a_new_start(data: Path) -> None:
    def look(ledger: SqliteLedger) -> None:
        assert ledger.pinned() == [varied(seq).record for seq in PINNED]
        assert ledger.body(33) == varied(33).body
        assert ledger.verify() == 50

    with_ledger(data / LEDGER_FILE, look)
    assert problems_of(data) == []


def test_a_reader_beside_the_broker_sees_them(data: Path) -> None:
    reader = LedgerReader(data / LEDGER_FILE)
    assert seqs(reader.pinned()) == PINNED
    reader.close()


def test_a_backup_has_them_with_their_bodies(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "copy")

    def look(ledger: SqliteLedger) -> None:
        assert seqs(ledger.pinned()) == PINNED
        assert ledger.body(3) == varied(3).body

    with_ledger(tmp_path / "copy" / LEDGER_FILE, look)


def test_several_cuts_pin_across_their_borders(data: Path) -> None:
    def cut(ledger: SqliteLedger) -> None:
        run(ledger.retain(keep_records=48, needed=lambda record: record.seq in (51, 52)))
        assert seqs(ledger.pinned()) == [51, 52]

    with_ledger(data / LEDGER_FILE, cut)
    assert audit(data / LEDGER_FILE).is_sound


@pytest.mark.parametrize(
    ("query", "finding"),
    [
        ("UPDATE pinned SET row = x'00' WHERE seq = 13", "record 13 is pinned and does not match"),
        ("UPDATE pinned SET seq = 14 WHERE seq = 13", "record 14 is pinned and does not match"),
        ("UPDATE pinned SET link = x'00' WHERE seq = 13", "record 13 is pinned and does not fol"),
        ("UPDATE bodies SET blob = x'00' WHERE seq = 33", "record 33 has a body that does not"),
        ("DELETE FROM bodies WHERE seq = 33", "record 33 has a body that does not match"),
    ],
)
def test_a_changed_pinned_record_is_found(data: Path, query: str, finding: str) -> None:
    change(data, query)
    assert any(finding in problem for problem in problems_of(data))


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM pinned WHERE seq = 13",
        "DELETE FROM pinned",
        "DELETE FROM pin_totals",
        "UPDATE pin_totals SET count = 4",
    ],
)
def test_a_missing_pinned_record_refuses_the_start(data: Path, query: str) -> None:
    change(data, query)
    with pytest.raises(LedgerDamaged, match=r"pinned records are missing|`pin_totals` is damaged"):
        SqliteLedger(data / LEDGER_FILE)
    assert problems_of(data) != []


def test_a_damaged_pinned_record_is_never_read_silently(data: Path) -> None:
    change(data, "UPDATE pinned SET before = before + 1 WHERE seq = 23")

    def look(ledger: SqliteLedger) -> None:
        with pytest.raises(LedgerDamaged, match="pinned record 23"):
            ledger.pinned()
        with pytest.raises(LedgerDamaged, match="pinned record 23"):
            ledger.history("j3")
        assert len(ledger.history("j4")) == 5

    with_ledger(data / LEDGER_FILE, look)
    reader = LedgerReader(data / LEDGER_FILE)
    with pytest.raises(LedgerError, match="pinned record 23"):
        reader.pinned()
    reader.close()


def test_a_ledger_of_an_older_version_has_no_pins_yet(data: Path) -> None:
    change(data, "DROP TABLE pinned")
    change(data, "DROP TABLE pin_totals")
    connection = apsw.Connection(str(data / LEDGER_FILE))
    assert (pins.all_rows(connection), pins.rows_of_job(connection, "j3")) == ([], [])
    pins.check_totals(connection)
    connection.close()
    with_ledger(data / LEDGER_FILE, lambda ledger: run(ledger.retain(keep_records=9)))
    assert audit(data / LEDGER_FILE).is_sound


def test_many_pinned_records_are_looked_at_in_turns(tmp_path: Path) -> None:
    def cut(ledger: SqliteLedger) -> None:
        fill(ledger, 7000, batch=1000)
        run(ledger.retain(keep_records=0, needed=lambda record: True))
        assert len(ledger.pinned()) == 7000
        for left in (5000, 0, 0):
            run(ledger.retain(keep_records=0))
            assert len(ledger.pinned()) == left

    with_ledger(tmp_path / "ledger.db", cut)


def test_a_keyed_chain_detects_a_forged_pinned_record(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path, b"k" * 32)
    fill(ledger, 20)
    run(ledger.retain(keep_records=10, needed=is_of_j3))
    run(ledger.close())
    assert audit(path, b"k" * 32).is_sound
    assert [f.seq for f in audit(path, b"x" * 32).findings][-1] == 3
