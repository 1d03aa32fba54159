"""Each node of a cluster has its own folder of segments."""

from pathlib import Path

from tests.ledger.entries import fill, run

from dragoman.ledger.export import CHECKPOINT, Sealer
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.node_segments import NodeSegments


def sealer(ledger: MemoryLedger, folder: Path) -> Sealer:
    return Sealer(NodeSegments(ledger), folder)


def test_a_new_leader_seals_what_its_own_folder_lacks(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    fill(ledger, 10)
    sealer(ledger, tmp_path / "a").seal_once(1, 0.0)
    fill(ledger, 20)
    of_b = sealer(ledger, tmp_path / "b")
    assert ledger.checkpoints() == {CHECKPOINT: 10}
    of_b.seal_once(1, 0.0)
    assert of_b.manifest.last == 20
    assert ledger.checkpoints() == {CHECKPOINT: 20}
    again = sealer(ledger, tmp_path / "a")
    again.seal_once(1, 0.0)
    assert [(s.first, s.last) for s in again.manifest.segments] == [(1, 10), (11, 20)]


def test_a_folder_that_is_new_begins_with_the_oldest_kept_record(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    fill(ledger, 20)
    run(ledger.retain(keep_records=5))
    of_b = sealer(ledger, tmp_path / "b")
    of_b.seal_once(1, 0.0)
    assert [(s.first, s.last) for s in of_b.manifest.segments] == [(16, 20)]


def test_a_standby_seals_its_copy_and_leaves_the_checkpoint_to_the_leader(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    fill(ledger, 10)
    leads = False
    of_c = Sealer(NodeSegments(ledger, lambda: leads), tmp_path / "c")
    of_c.seal_once(1, 0.0)
    assert of_c.manifest.last == 10
    assert CHECKPOINT not in ledger.checkpoints()
    leads = True
    fill(ledger, 15)
    of_c.seal_once(1, 0.0)
    assert [(s.first, s.last) for s in of_c.manifest.segments] == [(1, 10), (11, 15)]
    assert ledger.checkpoints() == {CHECKPOINT: 15}
