"""Repair: every readable record is saved, what is lost is listed, doubtful jobs are dead."""

import asyncio
from pathlib import Path

import apsw
import pytest
from tests.core.builders import finished, joined, submitted

from dragoman.core.broker import Broker
from dragoman.core.effects import Append
from dragoman.core.events import Event
from dragoman.core.needed_records import NeededRecords
from dragoman.core.recovery import fold
from dragoman.ledger.base import Entry, LedgerError
from dragoman.ledger.checks import problems_of
from dragoman.ledger.export import Sealer
from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER
from dragoman.ledger.snapshots import MemorySnapshots
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.server.repair import RepairReport, repair
from dragoman.server.store_recovery import recover_store


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A ledger: joined 1, j1 submitted 2, dispatched 3, ended 4, j2 submitted 5, dispatched 6."""
    broker, folder = Broker(), tmp_path / "data"
    events: list[Event] = [joined("w1"), submitted("j1"), finished("w1", "j1"), submitted("j2")]
    effects = [e for n, event in enumerate(events) for e in broker.handle(event, float(n))]
    entries = [Entry(e.record, e.body) for e in effects if isinstance(e, Append)]
    ledger = SqliteLedger(folder / LEDGER_FILE)
    asyncio.run(ledger.append(entries))
    asyncio.run(ledger.close())
    assert [e.record.kind for e in entries][-2:] == ["submitted", "dispatched"]
    return folder


def damage(data: Path, query: str) -> None:
    connection = apsw.Connection(str(data / LEDGER_FILE))
    connection.execute(query)
    connection.close()


def repaired(data: Path) -> tuple[RepairReport, SqliteLedger]:
    target = data.parent / "repaired"
    report = repair(data, target)
    assert problems_of(target) == []
    return report, SqliteLedger(target / LEDGER_FILE)


def test_a_sound_ledger_comes_out_equal(data: Path) -> None:
    before = [*SqliteLedger(data / LEDGER_FILE).read()]
    report, ledger = repaired(data)
    assert (report.saved, report.lost, report.dead) == (6, [], [])
    assert [*ledger.read()] == before
    assert ledger.body(2) is not None


def test_a_lost_record_is_replaced_by_a_note_and_the_open_job_is_dead(data: Path) -> None:
    damage(data, "UPDATE records SET detail = 'changed' WHERE seq = 6")
    report, ledger = repaired(data)
    assert (report.lost, report.dead) == ([6], ["j2"])
    store = fold(ledger.read())
    assert store.jobs[JobId("j1")].state is JobState.SUCCEEDED
    assert store.jobs[JobId("j2")].state is JobState.DEAD
    assert "repair" in [*ledger.read()][5].detail


def test_records_of_a_job_whose_submission_is_lost_become_notes(data: Path) -> None:
    damage(data, "DELETE FROM records WHERE seq = 2")
    report, ledger = repaired(data)
    # Record 3 cannot prove that it is unchanged: its checksum starts from the one of record 2.
    assert (report.lost, report.detached) == ([2, 3], [4])
    fold(ledger.read())


def test_a_lost_request_makes_the_open_job_dead(data: Path) -> None:
    damage(data, "UPDATE bodies SET blob = x'00' WHERE seq = 5")
    report, _ = repaired(data)
    assert (report.lost, report.lost_bodies, report.dead) == ([], [5], ["j2"])


def test_a_lost_record_that_was_sealed_is_taken_from_its_segment(data: Path) -> None:
    ledger = SqliteLedger(data / LEDGER_FILE)
    Sealer(ledger, data / SEALED_FOLDER).seal_once(1, 0.0)
    before = [*ledger.read()]
    asyncio.run(ledger.close())
    damage(data, "UPDATE records SET detail = 'changed' WHERE seq = 3")
    report, ledger = repaired(data)
    assert (report.lost, report.dead) == ([], [])
    assert [*ledger.read()] == before
    assert (data.parent / "repaired" / SEALED_FOLDER / "manifest.json").exists()


def test_damaged_pages_cost_only_their_records(data: Path) -> None:
    file = data / LEDGER_FILE
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = b"\xff" * 400
    file.write_bytes(content)
    report, _ = repaired(data)
    assert report.saved + len(report.lost) + len(report.detached) == report.last - len(report.dead)


def test_the_damaged_files_stay_unchanged_and_nothing_is_overwritten(data: Path) -> None:
    damage(data, "DELETE FROM records WHERE seq = 2")
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    repaired(data)
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before
    with pytest.raises(LedgerError, match="is not empty"):
        repair(data, data)


def cut(data: Path) -> None:
    """Remove all records but the last; those of the open job j2 and its worker are pinned."""
    ledger = SqliteLedger(data / LEDGER_FILE)
    is_needed = NeededRecords(fold(ledger.read()))
    asyncio.run(ledger.retain(keep_records=1, needed=lambda r: r.job != "j1" and is_needed(r)))
    assert [record.seq for record in ledger.pinned()] == [1, 5]
    asyncio.run(ledger.close())


def test_pinned_records_are_saved_with_their_bodies(data: Path) -> None:
    cut(data)
    report, ledger = repaired(data)
    assert (report.saved, report.lost, report.dead) == (1, [], [])
    store = recover_store(ledger, MemorySnapshots(), 100).store
    assert store.jobs[JobId("j2")].state is JobState.RUNNING
    assert ledger.body(5) is not None


@pytest.mark.parametrize(
    "query",
    [
        "UPDATE pinned SET row = x'00' WHERE seq = 5",
        "UPDATE bodies SET blob = x'00' WHERE seq = 5",
        "DELETE FROM pinned WHERE seq = 1",
    ],
)
def test_if_a_pinned_record_is_lost_jobs_that_began_before_are_dead(data: Path, query: str) -> None:
    cut(data)
    damage(data, query)
    report, ledger = repaired(data)
    store = recover_store(ledger, MemorySnapshots(), 100).store
    assert all(job.is_final for job in store.jobs.values())
    assert report.dead in ([], ["j2"])
