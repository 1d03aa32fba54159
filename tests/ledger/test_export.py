"""Sealing: complete, repeatable, can be killed at any step, runs in the background."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.ledger.entries import fill, run, varied

from dragoman.ledger.atomic_file import no_step_hook
from dragoman.ledger.base import Ledger, LedgerError
from dragoman.ledger.export import CHECKPOINT, BackgroundSealer, Sealer
from dragoman.ledger.manifest import MANIFEST, read_manifest, segment_name
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.sqlite import SqliteLedger


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    opened: Ledger = (
        MemoryLedger() if request.param == "memory" else SqliteLedger(tmp_path / "ledger.db")
    )
    yield opened
    run(opened.close())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "segments"


def sealed(folder: Path) -> list[int]:
    """Read every record that the manifest lists, and check its entries."""
    seqs: list[int] = []
    manifest = read_manifest(folder)
    for segment in manifest.segments:
        table = pq.read_table(folder / segment.file)
        found = table["seq"].to_pylist()
        assert found == list(range(segment.first, segment.last + 1))
        assert table["detail"].to_pylist() == [varied(seq).record.detail for seq in found]
        seqs += found
    assert all(a.last + 1 == b.first for a, b in pairwise(manifest.segments))
    return seqs


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_records_are_sealed_in_order_and_once(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 5000)
    sealer = Sealer(ledger, folder, max_records=2200)
    while sealer.seal_once(min_records=1):
        pass
    assert [(each.first, each.last) for each in sealer.manifest.segments] == [
        (1, 2200),
        (2201, 4400),
        (4401, 5000),
    ]
    assert sealed(folder) == list(range(1, 5001))
    assert files(folder) == [
        MANIFEST,
        segment_name(1, 2200),
        segment_name(2201, 4400),
        segment_name(4401, 5000),
    ]


def test_a_small_range_waits_until_it_is_large_or_old_enough(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 10)  # the oldest at 1001.0
    now = 1001.0
    sealer = Sealer(ledger, folder, clock=lambda: now)
    assert sealer.seal_once(min_records=11, max_age=60) is None
    now = 1061.0
    segment = sealer.seal_once(min_records=11, max_age=60)
    assert segment is not None
    assert segment.last == 10
    assert sealer.seal_once(min_records=1, max_age=0) is None
    fill(ledger, 21)
    segment = sealer.seal_once(min_records=11, max_age=9999)
    assert segment is not None
    assert (segment.first, segment.last) == (11, 21)


def test_retention_keeps_what_is_not_sealed(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 100)
    sealer = Sealer(ledger, folder, max_records=40)
    assert run(ledger.retain(keep_records=0)) == 1
    sealer.seal_once(min_records=1)
    assert ledger.checkpoints() == {CHECKPOINT: 40}
    assert run(ledger.retain(keep_records=0)) == 41
    sealer.seal_once(min_records=1)
    assert sealed(folder) == list(range(1, 81))


def test_a_new_sealer_goes_on_where_the_last_one_stopped(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 50)
    Sealer(ledger, folder).seal_once(min_records=1)
    fill(ledger, 70)
    Sealer(ledger, folder).seal_once(min_records=1)
    assert sealed(folder) == list(range(1, 71))


class Killed(BaseException):
    """Simulates the end of the process: nothing catches it."""


def killer(at: int) -> tuple[list[str], "Kill"]:
    steps: list[str] = []
    return steps, Kill(steps, at)


class Kill:
    """Ends the process after so many steps."""

    def __init__(self, steps: list[str], at: int) -> None:
        self.steps = steps
        self.at = at

    def __call__(self, step: str) -> None:
        if len(self.steps) == self.at:
            raise Killed(step)
        self.steps.append(step)


def test_the_steps_of_a_sealing_come_in_a_safe_order(ledger: Ledger, folder: Path) -> None:
    steps: list[str] = []
    fill(ledger, 5)
    Sealer(ledger, folder, step=steps.append).seal_once(min_records=1)
    rename_durably = ["sync file", "rename", "sync directory"]
    assert steps == [
        "write segment",
        *rename_durably,
        "write manifest",
        *rename_durably,
        "checkpoint",
    ]


@pytest.mark.parametrize("at", range(9))
def test_a_sealing_killed_before_any_step_is_made_good_by_the_next(
    ledger: Ledger, folder: Path, at: int
) -> None:
    fill(ledger, 30)
    Sealer(ledger, folder).seal_once(min_records=1)
    fill(ledger, 60)
    steps, kill = killer(at)
    with pytest.raises(Killed):
        Sealer(ledger, folder, step=kill).seal_once(min_records=1)
    assert len(steps) == at
    assert sealed(folder) in (list(range(1, 31)), list(range(1, 61)))
    assert ledger.checkpoints()[CHECKPOINT] == 30
    fill(ledger, 75)  # the next segment does not end where the killed one did
    after = Sealer(ledger, folder)
    after.seal_once(min_records=1)
    assert sealed(folder) == list(range(1, 76))
    assert files(folder) == sorted([MANIFEST, *(s.file for s in after.manifest.segments)])
    assert ledger.checkpoints()[CHECKPOINT] == 75


@pytest.mark.parametrize("at", range(9))
def test_a_sealer_that_fails_at_any_step_tries_again_and_leaves_no_other_file(
    ledger: Ledger, folder: Path, at: int
) -> None:
    steps: list[str] = []

    def fail_once(step: str) -> None:
        steps.append(step)
        if len(steps) == at + 1:
            raise OSError("no space left on device")

    fill(ledger, 30)
    sealer = Sealer(ledger, folder, step=fail_once)
    with pytest.raises(OSError, match="no space"):
        sealer.seal_once(min_records=1)
    fill(ledger, 60)  # the next segment does not end where the failed one did
    sealer.seal_once(min_records=1)
    assert sealed(folder) == list(range(1, 61))
    assert Sealer(ledger, folder).manifest.last == 60


def test_a_half_written_draft_is_swept_away(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 30)
    folder.mkdir()
    (folder / (segment_name(1, 30) + ".tmp")).write_bytes(b"PAR1 half")
    (folder / (MANIFEST + ".tmp")).write_bytes(b"{")
    Sealer(ledger, folder).seal_once(min_records=1)
    assert files(folder) == [MANIFEST, segment_name(1, 30)]


def test_a_lost_manifest_is_told_and_no_segment_is_touched(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 30)
    Sealer(ledger, folder).seal_once(min_records=1)
    (folder / MANIFEST).unlink()
    with pytest.raises(LedgerError, match="records up to 30 were sealed: restore the manifest"):
        Sealer(ledger, folder)
    assert files(folder) == [segment_name(1, 30)]


def test_a_segment_that_nobody_here_left_behind_is_told(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 30)
    Sealer(ledger, folder).seal_once(min_records=1)
    shutil.copy(folder / segment_name(1, 30), folder / segment_name(500, 600))
    with pytest.raises(LedgerError, match="is not in the manifest"):
        Sealer(ledger, folder)
    assert segment_name(500, 600) in files(folder)


def test_segments_of_another_ledger_are_told(ledger: Ledger, folder: Path) -> None:
    other = MemoryLedger()
    fill(other, 30)
    Sealer(other, folder).seal_once(min_records=1)
    with pytest.raises(LedgerError, match="these segments belong to another ledger"):
        Sealer(ledger, folder)


def test_a_gap_before_the_ledger_is_told(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 30)
    run(ledger.retain(keep_records=10))
    with pytest.raises(LedgerError, match="records 1 to 20 are gone"):
        Sealer(ledger, folder)


def seal_in_background(
    ledger: Ledger, folder: Path, every: float, before: Callable[[str], None] = no_step_hook
) -> None:
    """Run a background sealer until one segment is finished, then stop it."""

    async def story() -> None:
        loop, happened = asyncio.get_running_loop(), asyncio.Event()

        def step(name: str) -> None:
            before(name)
            if name == "checkpoint":
                loop.call_soon_threadsafe(happened.set)

        background = BackgroundSealer(Sealer(ledger, folder, step=step), every=every, min_records=1)
        background.start()
        await happened.wait()
        await background.stop()

    run(story())


def test_the_background_sealer_seals_and_stops_cleanly(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 100)
    seal_in_background(ledger, folder, every=3600)
    assert sealed(folder) == list(range(1, 101))
    assert ledger.checkpoints() == {CHECKPOINT: 100}


def test_the_background_sealer_survives_a_failure(ledger: Ledger, folder: Path) -> None:
    fill(ledger, 10)
    failures: list[str] = []

    def fail_once(step: str) -> None:
        if not failures:
            failures.append(step)
            raise OSError(28, "No space left on device")

    seal_in_background(ledger, folder, 0.001, fail_once)
    assert failures == ["write segment"]
    assert sealed(folder) == list(range(1, 11))


def test_a_background_sealer_that_was_never_started_can_be_stopped(
    ledger: Ledger, folder: Path
) -> None:
    run(BackgroundSealer(Sealer(ledger, folder)).stop())
