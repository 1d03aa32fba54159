"""The process that writes snapshots, run in this one."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.core.builders import Stage, finished, joined, submitted

from dragoman.core.recovery import fold
from dragoman.core.snapshots import write_snapshot
from dragoman.ledger.base import Entry
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.snapshots import SNAPSHOT_FILE, FileSnapshots
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server.snapshot_process import DAMAGED, FAILED, WRITTEN, main
from dragoman.server.store_recovery import recover_store


def write(data: Path, stage: Stage) -> None:
    """Write what a stage recorded since the last call into a ledger."""

    async def append() -> None:
        ledger = SqliteLedger(data / LEDGER_FILE)
        new = stage.records[ledger.last_seq :]
        await ledger.append([Entry(record, stage.bodies.get(record.seq)) for record in new])
        await ledger.close()

    asyncio.run(append())


@pytest.fixture(autouse=True)
def _polite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda by: by)


def test_it_continues_the_last_snapshot_with_the_records_after_it(tmp_path: Path) -> None:
    stage = Stage()
    for round_ in range(3):
        stage.tell(joined(f"w{round_}"), submitted(f"j{round_}"), submitted(f"q{round_}", "b"))
        stage.tell(finished("w0", f"j{round_}"))
        write(tmp_path, stage)
        assert main([str(tmp_path), "100", "3600", "check" if round_ else "checked"]) == WRITTEN
    ledger = SqliteLedger(tmp_path / LEDGER_FILE)
    found = recover_store(ledger, FileSnapshots(tmp_path / SNAPSHOT_FILE), 100)
    asyncio.run(ledger.close())
    assert found.snapshot_seq == len(stage.records)
    assert list(write_snapshot(found.store)) == list(write_snapshot(fold(stage.records)))


def test_an_empty_ledger_needs_none(tmp_path: Path) -> None:
    write(tmp_path, Stage())
    assert main([str(tmp_path), "100", "3600", "checked"]) == WRITTEN
    assert not (tmp_path / SNAPSHOT_FILE).exists()


def test_damage_has_its_own_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage()
    stage.tell(submitted("a-job-to-find"))
    write(tmp_path, stage)
    path = tmp_path / LEDGER_FILE
    path.write_bytes(path.read_bytes().replace(b"a-job-to-find", b"a-job-to-lose", 1))
    assert main([str(tmp_path), "100", "3600", "checked"]) == DAMAGED
    assert "does not match its checksum" in capsys.readouterr().err
    assert not (tmp_path / SNAPSHOT_FILE).exists()


def test_a_snapshot_that_cannot_be_written_has_another(tmp_path: Path) -> None:
    stage = Stage()
    stage.tell(submitted())
    write(tmp_path, stage)
    (tmp_path / (SNAPSHOT_FILE + ".part")).mkdir()
    assert main([str(tmp_path), "100", "3600", "checked"]) == FAILED
