"""`problems_of` finds what `up` refuses, what an audit finds, and damaged segments."""

from pathlib import Path

import apsw
import pytest
from tests.ledger.test_backup import data as data

from dragoman.ledger.base import LedgerError
from dragoman.ledger.checks import problems_of
from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER
from dragoman.ledger.sqlite import SqliteLedger


def change(data: Path, query: str) -> None:
    connection = apsw.Connection(str(data / LEDGER_FILE))
    connection.execute(query)
    connection.close()


def test_a_sound_ledger_has_no_problems(data: Path) -> None:
    assert problems_of(data) == []
    assert problems_of(data / "nothing") == []


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM records WHERE seq = 7",
        "DELETE FROM records WHERE seq > 290",
        "UPDATE origin SET first = 2",
    ],
)
def test_what_up_refuses_is_a_problem(data: Path, query: str) -> None:
    change(data, query)
    with pytest.raises(LedgerError):
        SqliteLedger(data / LEDGER_FILE)
    assert problems_of(data)


@pytest.mark.parametrize(
    "query",
    [
        "UPDATE records SET service = 'other' WHERE seq = 7",
        "UPDATE bodies SET blob = x'00' WHERE seq = 7",
    ],
)
def test_what_only_a_reader_finds_is_a_problem(data: Path, query: str) -> None:
    change(data, query)
    assert any("record 7" in problem for problem in problems_of(data))


def test_a_damaged_head_file_is_a_problem(data: Path) -> None:
    (data / f"{LEDGER_FILE}.head").write_bytes(b"?" * 20)
    assert "head is damaged" in problems_of(data)[0]


def test_a_missing_ledger_is_a_problem_if_there_was_one(data: Path) -> None:
    (data / LEDGER_FILE).unlink()
    assert "is missing; it had 300 records" in problems_of(data)[0]


def test_damaged_and_missing_segments_are_problems(data: Path) -> None:
    (segment,) = (data / SEALED_FOLDER).glob("*.parquet")
    segment.write_bytes(b"?")
    assert "do not match the manifest" in problems_of(data)[0]
    segment.unlink()
    assert "records 1 to 200" in problems_of(data)[0]
    (data / SEALED_FOLDER / "manifest.json").write_bytes(b"{")
    assert "damaged" in problems_of(data)[0]
