"""The in-memory twin's crash model. What it shares with SQLite is in the conformance suite."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ledger.entries import entries, fill, run, seqs

from dragoman.ledger.base import LedgerError, LedgerFull, LedgerIoError
from dragoman.ledger.disk import FaultyDisk
from dragoman.ledger.memory import MemoryLedger


def test_a_crash_keeps_what_was_appended_and_its_checkpoints() -> None:
    ledger = MemoryLedger()
    fill(ledger, 30)
    ledger.checkpoint("spark", 12)
    run(ledger.retain(keep_records=25))
    after = ledger.crash()
    assert seqs(after.read()) == list(range(6, 31))
    assert (after.first_seq, after.last_seq) == (6, 30)
    assert seqs(after.history("j9")) == [9, 19, 29]
    assert after.checkpoints() == {"spark": 12}


def test_what_was_written_but_not_synced_is_lost() -> None:
    ledger = MemoryLedger()
    run(ledger.append(entries(1, 2)))
    ledger.write(entries(3, 5))
    assert ledger.last_seq == 2
    assert seqs(ledger.crash().read()) == [1, 2]


def test_a_crashed_ledger_is_of_no_more_use() -> None:
    ledger = MemoryLedger()
    ledger.crash()
    with pytest.raises(LedgerError, match="closed"):
        run(ledger.append(entries(1, 1)))


def test_several_writes_are_made_durable_by_one_sync() -> None:
    ledger = MemoryLedger()
    ledger.write(entries(1, 2))
    ledger.write(entries(3, 3))
    assert ledger.sync() == 3
    assert seqs(ledger.crash().read()) == [1, 2, 3]


def test_a_failed_sync_withdraws_the_batch_and_the_number_is_free_again() -> None:
    disk = FaultyDisk(Random(0), eio=0.0)
    ledger = MemoryLedger(disk)
    ledger.write(entries(1, 2))
    disk.eio = 1.0
    with pytest.raises(LedgerIoError):
        ledger.sync()
    disk.eio = 0.0
    assert run(ledger.append(entries(1, 1))) == 1


def test_a_full_disk_refuses_the_batch_and_takes_it_when_there_is_room() -> None:
    disk = FaultyDisk(Random(0), full=1.0)
    ledger = MemoryLedger(disk)
    with pytest.raises(LedgerFull):
        run(ledger.append(entries(1, 3)))
    assert ledger.last_seq == 0
    disk.full = 0.0
    disk.free()
    assert run(ledger.append(entries(1, 3))) == 3


@given(seed=st.integers(0, 10_000), sizes=st.lists(st.integers(1, 4), max_size=6))
def test_a_crash_leaves_whole_batches_without_gaps_and_all_that_was_synced(
    seed: int, sizes: list[int]
) -> None:
    ledger = MemoryLedger(FaultyDisk(Random(seed)))
    run(ledger.append(entries(1, 3)))
    ends, last = {3}, 3
    for size in sizes:
        ledger.write(entries(last + 1, last + size))
        last += size
        ends.add(last)
    after = ledger.crash()
    assert after.last_seq in ends
    assert seqs(after.read()) == list(range(1, after.last_seq + 1))
    assert run(after.append(entries(after.last_seq + 1, after.last_seq + 1))) == after.last_seq
