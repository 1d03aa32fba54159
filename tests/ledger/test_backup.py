"""Backup and restore: consistent beside a writer, verified, never over something else."""

import asyncio
import stat
from pathlib import Path

import pytest

from dragoman.ledger.backup import backup, restore
from dragoman.ledger.base import Entry, LedgerError
from dragoman.ledger.export import Sealer
from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.record import Kind, Record


def entries(first: int, last: int) -> list[Entry]:
    body = Body("nfp", (b"x" * 50,))
    return [
        Entry(
            Record(n, float(n), Kind.SUBMITTED, f"j{n}", nbytes=body.size, digest=body.digest()),
            body,
        )
        for n in range(first, last + 1)
    ]


def write(ledger: SqliteLedger, first: int, last: int) -> None:
    asyncio.run(ledger.append(entries(first, last)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with 300 records, 200 of them sealed."""
    folder = tmp_path / "data"
    ledger = SqliteLedger(folder / LEDGER_FILE)
    write(ledger, 1, 200)
    Sealer(ledger, folder / SEALED_FOLDER).seal_once(1, 0.0)
    write(ledger, 201, 300)
    asyncio.run(ledger.close())
    return folder


def test_a_backup_is_restored_with_its_segments_and_goes_on(data: Path, tmp_path: Path) -> None:
    report = backup(data, tmp_path / "copy")
    assert (report.first, report.last, report.segments) == (1, 300, 1)
    restored = tmp_path / "restored"
    assert restore(tmp_path / "copy", restored).last == 300
    ledger = SqliteLedger(restored / LEDGER_FILE)
    assert [record.seq for record in ledger.read()] == list(range(1, 301))
    write(ledger, 301, 302)
    segment = Sealer(ledger, restored / SEALED_FOLDER).seal_once(1, 0.0)
    assert segment is not None
    assert (segment.first, segment.last) == (201, 302)
    asyncio.run(ledger.close())


def test_a_backup_beside_a_writer_is_consistent(data: Path, tmp_path: Path) -> None:
    ledger = SqliteLedger(data / LEDGER_FILE)
    write(ledger, 301, 400)
    report = backup(data, tmp_path / "copy")
    Sealer(ledger, data / SEALED_FOLDER).seal_once(1, 0.0)
    assert (report.last, report.segments) == (400, 1)
    asyncio.run(ledger.close())


def test_segments_sealed_after_the_copy_of_the_database_are_left_out(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.ledger import backup as module

    ledger = SqliteLedger(data / LEDGER_FILE)
    copy_database = module._copy_database

    def copy_then_seal(source: Path, target: Path) -> None:
        copy_database(source, target)
        write(ledger, 301, 350)
        Sealer(ledger, data / SEALED_FOLDER).seal_once(1, 0.0)

    monkeypatch.setattr(module, "_copy_database", copy_then_seal)
    report = backup(data, tmp_path / "copy")
    assert (report.last, report.segments) == (300, 1)
    asyncio.run(ledger.close())


def test_only_the_owner_can_read_a_backup(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "copy")
    for path in [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        if path.name not in ("manifest.json", f"{LEDGER_FILE}-wal", f"{LEDGER_FILE}-shm"):
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_nothing_is_overwritten(data: Path, tmp_path: Path) -> None:
    backup(data, tmp_path / "copy")
    with pytest.raises(LedgerError, match="is not empty"):
        backup(data, tmp_path / "copy")
    with pytest.raises(LedgerError, match="has a ledger already"):
        restore(tmp_path / "copy", data)
    with pytest.raises(LedgerError, match="is not a backup"):
        restore(tmp_path / "nothing", tmp_path / "new")
    with pytest.raises(LedgerError, match="no such ledger"):
        backup(tmp_path / "nothing", tmp_path / "other")


def test_a_damaged_segment_fails_the_backup(data: Path, tmp_path: Path) -> None:
    (segment,) = (data / SEALED_FOLDER).glob("*.parquet")
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    with pytest.raises(LedgerError, match="not sound"):
        backup(data, tmp_path / "copy")
