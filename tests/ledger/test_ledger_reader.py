"""A reader beside the broker that has the ledger open."""

from pathlib import Path

import pytest
from tests.ledger.entries import COUNT, fill, run, seqs

from dragoman.ledger.base import LedgerError
from dragoman.ledger.reader import LedgerReader
from dragoman.ledger.sqlite import SqliteLedger


def test_it_reads_what_was_durable_when_it_was_opened(path: Path) -> None:
    ledger = SqliteLedger(path)
    fill(ledger, 1500)
    reader = LedgerReader(path)
    fill(ledger, 1600)
    assert seqs(reader.read(1)) == list(range(2, 1501))
    assert seqs(reader.read(10, limit=3)) == [11, 12, 13]
    assert (reader.first_seq, reader.last_seq) == (1, 1500)
    assert reader.mark(1500) == ledger.mark(1500)
    reader.check()
    reader.close()
    run(ledger.close())


def test_an_empty_ledger_has_no_records(path: Path) -> None:
    ledger = SqliteLedger(path)
    reader = LedgerReader(path)
    assert list(reader.read()) == []
    assert reader.last_seq == 0
    reader.close()
    run(ledger.close())


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(LedgerError, match=r"ledger.*unable to open"):
        LedgerReader(path)


def test_a_file_that_is_no_ledger_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"something else, of more than a hundred bytes" * 10)
    with pytest.raises(LedgerError, match="not a database"):
        LedgerReader(path)


def test_damage_is_named(filled: Path) -> None:
    content = bytearray(filled.read_bytes())
    at = content.index("détail 77\n".encode())
    content[at] ^= 1
    filled.write_bytes(content)
    reader = LedgerReader(filled)
    with pytest.raises(LedgerError, match="record 77 does not match"):
        list(reader.read())
    reader.close()


def test_a_start_that_trusts_a_mark_checks_only_what_follows(filled: Path) -> None:
    ledger = SqliteLedger(filled)
    trusted = (COUNT - 10, ledger.mark(COUNT - 10))
    run(ledger.close())
    content = bytearray(filled.read_bytes())
    _break_a_page(content)
    filled.write_bytes(content)
    with pytest.raises(LedgerError, match=r"SQLite reports|damaged|malformed"):
        SqliteLedger(filled)
    opened = SqliteLedger(filled, trusted=trusted)
    assert opened.last_seq == COUNT
    run(opened.close())
    reader = LedgerReader(filled)
    with pytest.raises(LedgerError):
        reader.check()
    reader.close()


@pytest.mark.parametrize("trusted", [(COUNT, "another mark"), (COUNT + 5, "")])
def test_a_mark_that_does_not_fit_is_not_trusted(filled: Path, trusted: tuple[int, str]) -> None:
    content = bytearray(filled.read_bytes())
    _break_a_page(content)
    filled.write_bytes(content)
    with pytest.raises(LedgerError):
        SqliteLedger(filled, trusted=trusted)


def _break_a_page(content: bytearray) -> None:
    """Damage the pointer map of the file, which no row depends on."""
    content[4096 : 4096 + 64] = bytes(64)
