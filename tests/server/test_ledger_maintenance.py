"""Sealing and retention beside the running broker."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.ledger.base import Entry, Ledger, LedgerError, Needed
from dragoman.ledger.export import Sealer
from dragoman.ledger.layout import SEALED_FOLDER as SEALED
from dragoman.ledger.manifest import read_manifest
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.record import Kind, Record
from dragoman.server import ledger_maintenance
from dragoman.server.ledger_maintenance import LedgerMaintenance
from dragoman.server.settings import LedgerSection


def needs_nothing() -> Needed:
    return lambda record: False


def filled(count: int) -> MemoryLedger:
    ledger = MemoryLedger()
    records = [Record(n, float(n), Kind.PUBLISHED) for n in range(1, count + 1)]
    asyncio.run(ledger.append([Entry(r) for r in records]))
    return ledger


def test_the_last_records_are_sealed_at_the_end(tmp_path: Path) -> None:
    ledger = filled(10)

    async def scenario() -> None:
        keeping = LedgerMaintenance(ledger, tmp_path, LedgerSection(), lambda: 20.0, needs_nothing)
        keeping.start()
        await keeping.stop()

    asyncio.run(scenario())
    manifest = read_manifest(tmp_path / SEALED)
    assert [(s.first, s.last) for s in manifest.segments] == [(1, 10)]


def test_records_are_sealed_when_asked_for(tmp_path: Path) -> None:
    ledger = filled(5)

    async def scenario() -> None:
        maintenance = LedgerMaintenance(
            ledger, tmp_path, LedgerSection(), lambda: 0.0, needs_nothing
        )
        maintenance.start()
        assert await maintenance.seal_now() == 5
        assert await maintenance.seal_now() == 5
        await maintenance.stop()

    asyncio.run(scenario())


def test_without_sealing_a_request_to_seal_is_refused(tmp_path: Path) -> None:
    ledger = filled(1)

    async def scenario() -> None:
        settings = LedgerSection(seal=False)
        maintenance = LedgerMaintenance(ledger, tmp_path, settings, lambda: 0.0, needs_nothing)
        with pytest.raises(LedgerError, match="sealing is off"):
            await maintenance.seal_now()

    asyncio.run(scenario())


def test_without_sealing_nothing_is_written(tmp_path: Path) -> None:
    ledger = filled(3)

    async def scenario() -> None:
        settings = LedgerSection(seal=False)
        keeping = LedgerMaintenance(ledger, tmp_path, settings, lambda: 20.0, needs_nothing)
        keeping.start()
        await keeping.stop()

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_retention_pins_what_an_open_job_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_maintenance, "_RETAIN_EVERY", 0.001)
    ledger = filled(10)
    day = 86_400.0

    async def scenario() -> None:
        settings = LedgerSection(seal=False, keep_days=1)
        keeping = LedgerMaintenance(
            ledger, tmp_path, settings, lambda: 9 + day, lambda: lambda record: record.seq == 2
        )
        keeping.start()
        async with asyncio.timeout(10):
            while ledger.first_seq < 9:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await keeping.stop()

    asyncio.run(scenario())
    assert [record.seq for record in ledger.pinned()] == [2]


def test_old_segments_that_a_pipeline_has_read_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_maintenance, "_RETAIN_EVERY", 0.001)
    ledger = filled(5)
    manifest = tmp_path / SEALED

    async def scenario() -> None:
        settings = LedgerSection(keep_days=0, sealed_days=1)
        keeping = LedgerMaintenance(ledger, tmp_path, settings, lambda: 1e9, needs_nothing)
        keeping.start()
        await keeping.seal_now()
        await ledger.append([Entry(Record(6, 6.0, Kind.PUBLISHED))])
        await keeping.seal_now()
        assert len(read_manifest(manifest).segments) == 2
        (manifest / "readers").mkdir()
        (manifest / "readers" / "a.json").write_text('{"tables": "/t", "last": 6}')
        async with asyncio.timeout(10):
            while len(read_manifest(manifest).segments) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await keeping.stop()

    asyncio.run(scenario())
    assert ledger.first_seq == 1


def test_if_sealing_fails_before_its_first_attempt_a_request_to_seal_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(ledger: Ledger, folder: Path, ledger_file: Path | None) -> Sealer:
        raise ImportError("no Parquet library")

    monkeypatch.setattr(ledger_maintenance, "_make_sealer", fail)

    async def scenario() -> None:
        keeping = LedgerMaintenance(
            filled_ledger, tmp_path, LedgerSection(), lambda: 0.0, needs_nothing
        )
        keeping.start()
        async with asyncio.timeout(10):
            with pytest.raises(LedgerError, match="sealing cannot start: no Parquet library"):
                await keeping.seal_now()
        await keeping.stop()

    filled_ledger = filled(1)
    asyncio.run(scenario())


_LIFE = """
import asyncio, sys
from pathlib import Path
from tests.ledger.entries import fill
from tests.server.test_ledger_maintenance import needs_nothing
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server.ledger_maintenance import LedgerMaintenance
from dragoman.server.settings import LedgerSection

async def life():
    folder, settings = Path(sys.argv[1]), LedgerSection()
    keeping = LedgerMaintenance(
        LEDGER, folder, settings, lambda: 20.0, needs_nothing, ledger_file=LEDGER.path
    )
    keeping.start()
    await keeping._beginning
    before = set(sys.modules)
    await keeping.stop()
    print(sorted(set(sys.modules) - before))
    await LEDGER.close()

LEDGER = SqliteLedger(Path(sys.argv[1]) / "ledger.db")
fill(LEDGER, 10)
asyncio.run(life())
"""


@pytest.mark.process
def test_all_that_the_stop_needs_is_imported_at_the_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LIFE, str(tmp_path)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"
    assert read_manifest(tmp_path / SEALED).last == 10
