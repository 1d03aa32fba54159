"""Damage anywhere in a SQLite ledger is detected, located and left unchanged."""

from pathlib import Path
from random import Random

import apsw
import pytest
from tests.ledger.entries import (
    COUNT,
    everything,
    seqs,
    varied,
    with_ledger,
)

from dragoman.ledger.base import LedgerDamaged
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Record

EXPECTED = [varied(seq).record for seq in range(1, COUNT + 1)]


def judge(path: Path, expected: list[Record]) -> str:
    """Open and read everything: returns what was written, or raises with the damaged range."""
    before = path.read_bytes()
    try:
        found = with_ledger(path, _all_that_can_be_asked)
    except LedgerDamaged as damage:
        says_where = 1 <= damage.first <= damage.last <= COUNT and str(path) in str(damage)
        is_untouched = path.read_bytes() == before
        return "damaged" if says_where and is_untouched else f"damaged and: {damage}"
    assert found == (expected, {n: _history(expected, n) for n in range(10)}, {"spark": 100})
    return "whole"


def _all_that_can_be_asked(
    ledger: SqliteLedger,
) -> tuple[list[Record], dict[int, list[Record]], dict[str, int]]:
    records = everything(ledger)
    bodies = [ledger.body(each.seq) for each in records]
    assert bodies == [varied(each.seq).body for each in records]
    return records, {n: ledger.history(f"j{n}") for n in range(10)}, ledger.checkpoints()


def _history(records: list[Record], job: int) -> list[Record]:
    return [each for each in records if each.job == f"j{job}"]


def test_a_changed_byte_anywhere_is_harmless_or_found(filled: Path) -> None:
    whole = filled.read_bytes()
    random = Random(11)
    places = [*range(0, 100, 7), *(random.randrange(len(whole)) for _ in range(140))]
    verdicts = []
    for place in places:
        flipped = whole[place] ^ (1 << random.randrange(8))
        filled.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        verdicts.append(judge(filled, EXPECTED))
    assert set(verdicts) <= {"whole", "damaged"}
    assert verdicts.count("damaged") > len(places) // 2


def test_a_page_of_noise_is_found(filled: Path) -> None:
    whole = filled.read_bytes()
    random = Random(12)
    for start in range(0, len(whole), 4096):
        noise = random.randbytes(4096)
        filled.write_bytes(whole[:start] + noise + whole[start + 4096 :])
        assert judge(filled, EXPECTED) == "damaged"


def test_a_file_cut_short_is_found(filled: Path) -> None:
    whole = filled.read_bytes()
    random = Random(13)
    lengths = {random.randrange(len(whole)) for _ in range(40)}
    lengths |= set(range(0, len(whole), 4096))
    for length in sorted(lengths):
        filled.write_bytes(whole[:length])
        assert judge(filled, EXPECTED) == "damaged"


def test_a_missing_file_is_found(filled: Path) -> None:
    filled.unlink()
    with pytest.raises(LedgerDamaged, match="the file is missing") as caught:
        SqliteLedger(filled)
    assert (caught.value.first, caught.value.last) == (1, COUNT)
    assert not filled.exists()


def test_a_changed_byte_in_the_log_is_found_and_the_log_is_kept(killed: Path) -> None:
    log = killed.with_name("ledger.db-wal")
    whole, table = log.read_bytes(), killed.read_bytes()
    random = Random(14)
    for _ in range(80):
        place = random.randrange(len(whole))
        log.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        changed = log.read_bytes()
        with pytest.raises(LedgerDamaged, match="acknowledged and are missing") as caught:
            SqliteLedger(killed)
        assert 1 <= caught.value.first <= caught.value.last == COUNT
        assert (log.read_bytes(), killed.read_bytes()) == (changed, table)


@pytest.mark.parametrize("fraction", [0, 1, 5, 9])
def test_a_log_cut_short_is_found(killed: Path, fraction: int) -> None:
    log = killed.with_name("ledger.db-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size * fraction // 10])
    with pytest.raises(
        LedgerDamaged, match=f"to {COUNT} were acknowledged and are missing"
    ) as caught:
        SqliteLedger(killed)
    assert caught.value.last == COUNT


def test_a_log_that_is_gone_is_found(killed: Path) -> None:
    killed.with_name("ledger.db-wal").unlink()
    with pytest.raises(LedgerDamaged) as caught:
        SqliteLedger(killed)
    assert (caught.value.first, caught.value.last) == (1, COUNT)


def tamper(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "first", "last"),
    [
        ("DELETE FROM records WHERE seq = 1", 1, 2),
        ("DELETE FROM records WHERE seq = 300", 300, 301),
        ("DELETE FROM records WHERE seq BETWEEN 100 AND 400", 100, 401),
        (f"DELETE FROM records WHERE seq = {COUNT}", COUNT, COUNT),
        ("DELETE FROM records", 1, COUNT),
        ("UPDATE records SET seq = 5000 WHERE seq = 10", 10, 11),
    ],
)
def test_a_row_removed_behind_its_back_is_found_when_opening(
    filled: Path, statement: str, first: int, last: int
) -> None:
    tamper(filled, statement)
    with pytest.raises(LedgerDamaged) as caught:
        SqliteLedger(filled)
    assert caught.value.first == first
    assert caught.value.last >= last


@pytest.mark.parametrize(
    ("statement", "first", "last"),
    [
        ("UPDATE records SET state = 'succeeded' WHERE seq = 250", 250, 250),
        ("UPDATE records SET chain = chain + 1 WHERE seq = 250", 250, 251),
        ("DELETE FROM bodies WHERE seq = 300", 300, 300),
        ("UPDATE bodies SET blob = x'00' WHERE seq IN (30, 60)", 30, 60),
        ("INSERT INTO bodies VALUES (31, x'00')", 31, 31),
    ],
)
def test_what_was_changed_behind_its_back_is_found_when_reading(
    filled: Path, statement: str, first: int, last: int
) -> None:
    tamper(filled, statement)

    def use(ledger: SqliteLedger) -> None:
        with pytest.raises(LedgerDamaged, match=f"records {first} to {last} ") as caught:
            ledger.verify()
        assert (caught.value.first, caught.value.last) == (first, last)
        assert seqs(ledger.read(limit=20)) == list(range(1, 21))

    with_ledger(filled, use)


def test_a_damaged_record_is_not_in_a_history_and_not_beside_a_body(filled: Path) -> None:
    tamper(filled, "UPDATE records SET detail = '' WHERE seq = 250")
    tamper(filled, "UPDATE bodies SET blob = x'00' WHERE seq = 300")

    def use(ledger: SqliteLedger) -> None:
        with pytest.raises(LedgerDamaged):
            ledger.history("j0")
        with pytest.raises(LedgerDamaged):
            ledger.body(300)
        assert len(ledger.history("j1")) == COUNT // 10

    with_ledger(filled, use)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE origin SET first = 2",
        "DELETE FROM origin",
        "UPDATE checkpoints SET seq = 500",
        "DROP TABLE bodies",
        "PRAGMA application_id = 5",
    ],
)
def test_damage_beside_the_records_is_found_when_opening(filled: Path, statement: str) -> None:
    tamper(filled, statement)
    with pytest.raises(LedgerDamaged, match=str(filled)):
        with_ledger(filled, SqliteLedger.verify)
