"""A restored ledger becomes the first content of an empty stream."""

from pathlib import Path

import pytest
from tests.ledger.entries import entries, fill, run

from dragoman.ledger.backup import backup, restore
from dragoman.ledger.base import LedgerError
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.memory_stream import MemoryStream, StreamConnection
from dragoman.ledger.replicated import ReplicatedLedger
from dragoman.ledger.reseed import prepare_restored
from dragoman.ledger.sqlite import SqliteLedger


def replicated(folder: Path, stream: MemoryStream) -> ReplicatedLedger:
    return ReplicatedLedger(folder / LEDGER_FILE, StreamConnection(stream), patience=0.01)


def led(folder: Path, stream: MemoryStream) -> ReplicatedLedger:
    ledger = replicated(folder, stream)
    ledger.catch_up()
    ledger.lead()
    return ledger


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """The folder of a node with the backup of another cluster, 1,200 records and a checkpoint."""
    old = led(tmp_path / "old", MemoryStream())
    fill(old, 1200)
    old.checkpoint("reader", 700)
    run(old.retain(keep_records=1100))
    backup(tmp_path / "old", tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "a")
    prepare_restored(tmp_path / "a" / LEDGER_FILE)
    return tmp_path / "a"


def test_other_nodes_get_the_restored_records_from_the_stream(
    tmp_path: Path, restored: Path
) -> None:
    stream = MemoryStream()
    first = led(restored, stream)
    before = first.is_restored
    first.publish_restored()
    assert (before, first.is_restored) == (True, False)
    run(first.append(entries(1201, 1205)))
    other = replicated(tmp_path / "b", stream)
    other.catch_up()
    assert list(other.read()) == list(first.read())
    assert (other.first_seq, other.last_seq) == (101, 1205)
    assert other.checkpoints() == first.checkpoints() == {"reader": 700}
    assert [other.mark(seq) for seq in (101, 700, 1205)] == [
        first.mark(seq) for seq in (101, 700, 1205)
    ]
    assert other.place == first.place
    assert first.epoch == 2


def test_the_ledger_of_a_single_broker_can_begin_a_cluster(tmp_path: Path) -> None:
    single = SqliteLedger(tmp_path / "single" / LEDGER_FILE)
    fill(single, 30)
    run(single.close())
    prepare_restored(tmp_path / "single" / LEDGER_FILE)
    stream = MemoryStream()
    led(tmp_path / "single", stream).publish_restored()
    other = replicated(tmp_path / "b", stream)
    other.catch_up()
    assert other.last_seq == 30


def test_a_restored_ledger_is_not_mixed_with_a_stream_that_has_records(
    tmp_path: Path, restored: Path
) -> None:
    stream = MemoryStream()
    fill(led(tmp_path / "b", stream), 3)
    late = replicated(restored, stream)
    with pytest.raises(LedgerError, match="start this node first"):
        late.catch_up()
    assert late.last_seq == 1200
