"""A start from a snapshot and the records after it is a start from all records."""

import asyncio
from typing import Any

import pytest
import structlog.testing
from tests.core.builders import Stage, finished, joined, submitted

from dragoman.core.needed_records import NeededRecords
from dragoman.core.recovery import fold
from dragoman.core.snapshots import write_snapshot
from dragoman.ledger.base import Entry, LedgerError
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.snapshots import MemorySnapshots, SnapshotHead
from dragoman.server.store_recovery import recover_store, take_snapshot


class ReadCounter(MemoryLedger):
    """A ledger that counts the records that are read."""

    count = 0

    def read(self, after: int = 0, limit: int | None = None) -> Any:
        for record in super().read(after, limit):
            self.count += 1
            yield record


def ledger_of(stage: Stage) -> ReadCounter:
    ledger = ReadCounter()
    entries = [Entry(record, stage.bodies.get(record.seq)) for record in stage.records]
    asyncio.run(ledger.append(entries))
    return ledger


def busy_stage() -> Stage:
    stage = Stage()
    stage.tell(joined("w1"), *(submitted(f"j{n}") for n in range(5)))
    stage.tell(*(finished("w1", f"j{n}") for n in range(3)), submitted("j9", "b"))
    return stage


def test_a_start_reads_the_records_after_the_snapshot_only() -> None:
    stage, snapshots = busy_stage(), MemorySnapshots()
    ledger = ledger_of(stage)
    take_snapshot(fold(stage.records), ledger, snapshots, retention=3600)
    stage.tell(finished("w1", "j3"))
    after = ledger_of(stage)
    found = recover_store(after, snapshots, 100)
    assert found.snapshot_seq == ledger.last_seq
    assert after.count == after.last_seq - ledger.last_seq
    assert list(write_snapshot(found.store)) == list(write_snapshot(fold(stage.records)))


def test_without_a_snapshot_all_records_are_read() -> None:
    stage = busy_stage()
    ledger = ledger_of(stage)
    found = recover_store(ledger, MemorySnapshots(), 100)
    assert (found.snapshot_seq, found.ignored) == (0, "")
    assert ledger.count == len(stage.records)


def test_finished_jobs_that_are_too_old_are_left_out() -> None:
    stage, snapshots = busy_stage(), MemorySnapshots()
    stage.wait(100)
    stage.tell(submitted("late", "b"))
    take_snapshot(fold(stage.records), ledger_of(stage), snapshots, retention=50)
    assert list(recover_store(ledger_of(stage), snapshots, 100).store.jobs) == [
        *("j3", "j4", "j9", "late")
    ]


def damaged(snapshots: MemorySnapshots, stage: Stage) -> str:
    middle = len(snapshots.content) // 2
    flipped = bytes([snapshots.content[middle] ^ 1])
    snapshots.content = snapshots.content[:middle] + flipped + snapshots.content[middle + 1 :]
    return "checksum"


def of_a_newer_version(snapshots: MemorySnapshots, stage: Stage) -> str:
    head = snapshots.head()
    assert head is not None
    totals, *rest = list(snapshots.rows())
    snapshots.write(head, [totals | {"fold": 99}, *rest])
    return "version 99"


def of_another_ledger(snapshots: MemorySnapshots, stage: Stage) -> str:
    snapshots.write(SnapshotHead(3, "foreign"), snapshots.rows())
    return "not of this ledger"


def ahead_of_the_ledger(snapshots: MemorySnapshots, stage: Stage) -> str:
    snapshots.write(SnapshotHead(10_000, "x"), list(snapshots.rows()))
    return "not in this ledger"


def with_another_head(snapshots: MemorySnapshots, stage: Stage) -> str:
    rows = list(snapshots.rows())
    snapshots.write(SnapshotHead(2, ledger_of(stage).mark(2)), rows)
    return "its head says record 2"


@pytest.mark.parametrize(
    "spoil",
    [damaged, of_a_newer_version, of_another_ledger, ahead_of_the_ledger, with_another_head],
)
def test_a_snapshot_that_cannot_be_used_costs_time_and_a_warning(spoil: Any) -> None:
    stage, snapshots = busy_stage(), MemorySnapshots()
    ledger = ledger_of(stage)
    take_snapshot(fold(stage.records), ledger, snapshots, retention=3600)
    reason = spoil(snapshots, stage)
    with structlog.testing.capture_logs() as logs:
        found = recover_store(ledger, snapshots, 100)
    assert reason in found.ignored
    assert found.store.as_recorded() == fold(stage.records).as_recorded()
    [line] = logs
    assert line["log_level"] == "warning"
    assert reason in line["reason"]


@pytest.mark.parametrize("kept", range(1, 15))
def test_a_start_works_wherever_retention_has_cut_the_ledger(kept: int) -> None:
    stage = busy_stage()
    ledger = ledger_of(stage)
    whole = fold(stage.records)
    asyncio.run(ledger.retain(keep_records=kept, needed=NeededRecords(whole)))
    store = recover_store(ledger, MemorySnapshots(), 100).store
    assert store.last_seq == len(stage.records)
    assert store.as_recorded() == whole.as_recorded()


def test_a_start_overtaken_by_retention_is_told() -> None:
    stage = busy_stage()
    ledger = ledger_of(stage)
    pinned = ledger.pinned()
    asyncio.run(ledger.retain(keep_records=3))

    class Overtaken(MemoryLedger):
        """It looked for pinned records before retention ran."""

        first_seq = 1
        pinned = lambda self: pinned  # noqa: E731
        read = lambda self, after=0, limit=None: ledger.read(after, limit)  # noqa: E731

    with pytest.raises(LedgerError, match="retention has removed records 1 to"):
        recover_store(Overtaken(), MemorySnapshots(), 100)
