"""Old segments go when every reader has read them; the manifest stays true at each step."""

import contextlib
from pathlib import Path

import pytest
from tests.ledger.entries import fill, run

from dragoman.ledger.backup import copy_segments
from dragoman.ledger.base import LedgerError
from dragoman.ledger.checks import problems_of
from dragoman.ledger.export import Sealer
from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER
from dragoman.ledger.manifest import SealedSegment, read_manifest
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.segment_retention import read_positions, removable_segments
from dragoman.ledger.sqlite import SqliteLedger


def segment(first: int, last: int) -> SealedSegment:
    rows = last + 1 - first
    return SealedSegment(f"{first}", first, last, rows, 1, "", 1000.0 + first, 1000.0 + last)


SEGMENTS = [segment(1, 10), segment(11, 20), segment(21, 30)]


@pytest.mark.parametrize(
    ("before_at", "positions", "count"),
    [
        (1011.0, [30], 1),
        (1010.0, [30], 0),
        (9999.0, [30], 2),
        (9999.0, [30, 19], 1),
        (9999.0, [30, 9], 0),
        (9999.0, [0], 0),
        (9999.0, [], 0),
    ],
)
def test_a_segment_goes_if_it_is_old_and_read(
    before_at: float, positions: list[int], count: int
) -> None:
    assert removable_segments(SEGMENTS, before_at, positions) == SEGMENTS[:count]


def note(folder: Path, last: int) -> None:
    (folder / "readers").mkdir(exist_ok=True)
    (folder / "readers" / "a.json").write_text(f'{{"tables": "/t", "last": {last}}}')


def sealed(folder: Path) -> tuple[MemoryLedger, Sealer]:
    ledger = MemoryLedger()
    fill(ledger, 30)
    sealer = Sealer(ledger, folder, max_records=10)
    while sealer.seal_once(1, 0.0):
        pass
    return ledger, sealer


def test_removed_segments_leave_a_manifest_of_the_others(tmp_path: Path) -> None:
    ledger, sealer = sealed(tmp_path)
    assert sealer.remove_before(9999.0) == 0
    note(tmp_path, 20)
    assert sealer.remove_before(9999.0) == 2
    assert sealer.remove_before(9999.0) == 0
    assert [(s.first, s.last) for s in read_manifest(tmp_path).segments] == [(21, 30)]
    assert len(list(tmp_path.glob("seg-*"))) == 1
    fill(ledger, 35)
    assert sealer.seal_once(1, 0.0) is not None
    assert [s.first for s in Sealer(ledger, tmp_path).manifest.segments] == [21, 31]


@pytest.mark.parametrize("stop_at", range(6))
def test_a_removal_that_is_interrupted_anywhere_is_finished_at_the_next_start(
    tmp_path: Path, stop_at: int
) -> None:
    ledger, _ = sealed(tmp_path)
    note(tmp_path, 30)
    steps = 0

    def step(name: str) -> None:
        nonlocal steps
        steps += 1
        if steps > stop_at:
            raise InterruptedError(name)

    interrupted = Sealer(ledger, tmp_path, step=step)
    with contextlib.suppress(InterruptedError):
        interrupted.remove_before(9999.0)
    manifest = Sealer(ledger, tmp_path).manifest
    assert {s.file for s in manifest.segments} == {p.name for p in tmp_path.glob("seg-*")}
    assert manifest.last == 30
    assert manifest.first in (1, 21)


def test_a_damaged_position_removes_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    _, sealer = sealed(tmp_path)
    note(tmp_path, 30)
    (tmp_path / "readers" / "a.json").write_text("{")
    with pytest.raises(LedgerError, match=r"a\.json is damaged: .*; run its pipeline again"):
        sealer.remove_before(9999.0)
    assert len(read_manifest(tmp_path).segments) == 3
    assert read_positions(tmp_path / "nowhere") == {}


def test_a_verified_folder_may_begin_with_a_later_segment(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / LEDGER_FILE)
    fill(ledger, 30)
    folder = tmp_path / SEALED_FOLDER
    sealer = Sealer(ledger, folder, max_records=10)
    while sealer.seal_once(1, 0.0):
        pass
    note(folder, 30)
    sealer.remove_before(1025.0)
    run(ledger.close())
    assert problems_of(tmp_path) == []
    assert len(copy_segments(folder, tmp_path / "copy", 30).segments) == 1


def test_a_backup_that_meets_a_removal_says_so(tmp_path: Path) -> None:
    sealed(tmp_path / "sealed")
    next((tmp_path / "sealed").glob("seg-*1-*")).unlink()
    with pytest.raises(LedgerError, match="is gone: if retention has removed it just now"):
        copy_segments(tmp_path / "sealed", tmp_path / "copy", 30)
