"""The seeded disk: its faults, and that a seed repeats them."""

from random import Random

import pytest

from dragoman.ledger.base import LedgerFull, LedgerIoError
from dragoman.ledger.disk import FaultyDisk, ReliableDisk


def test_a_sound_disk_keeps_what_was_synced_and_loses_the_rest() -> None:
    disk = ReliableDisk()
    disk.write(3)
    disk.sync()
    assert disk.survivors(3) == 0


def test_a_full_disk_stays_full_until_there_is_room() -> None:
    disk = FaultyDisk(Random(1), full=1.0)
    with pytest.raises(LedgerFull, match="no space"):
        disk.write(1)
    disk.full = 0.0
    with pytest.raises(LedgerFull, match="no space"):
        disk.write(1)
    disk.free()
    disk.write(1)
    assert disk.faults == 2


def test_an_io_error_is_over_at_once() -> None:
    disk = FaultyDisk(Random(1), eio=1.0)
    with pytest.raises(LedgerIoError, match="write"):
        disk.write(1)
    with pytest.raises(LedgerIoError, match="sync"):
        disk.sync()
    disk.eio = 0.0
    disk.write(1)
    disk.sync()
    assert disk.faults == 2


def test_a_power_cut_loses_tears_or_keeps_a_batch() -> None:
    disk = FaultyDisk(Random(1))
    fates = [disk.survivors(5) for _ in range(200)]
    assert set(fates) == {0, 1, 2, 3, 4, 5}
    assert disk.torn == sum(0 < fate < 5 for fate in fates)
    assert disk.faults == sum(fate < 5 for fate in fates)


def test_one_entry_cannot_be_torn() -> None:
    disk = FaultyDisk(Random(1))
    assert {disk.survivors(1) for _ in range(50)} == {0, 1}
    assert disk.torn == 0


def test_the_same_seed_gives_the_same_faults() -> None:
    def story(seed: int) -> list[int]:
        disk = FaultyDisk(Random(seed))
        return [disk.survivors(9) for _ in range(50)]

    assert story(7) == story(7)
    assert story(7) != story(8)
