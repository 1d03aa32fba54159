from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dragoman.pipeline.delta import ConcurrentWriter
from dragoman.pipeline.snapshot import (
    Snapshot,
    StepNotFound,
    TablesOutdated,
    commit_snapshot,
    find_step,
    history,
    instant,
    read_snapshot,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
FIRST = Snapshot(1, 10, NOON, {"jobs": 0})
SECOND = Snapshot(2, 25, NOON + timedelta(microseconds=1), {"jobs": 1, "events": 7})


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A step log of two steps."""
    commit_snapshot(str(tmp_path), Snapshot(), FIRST, "step")
    commit_snapshot(str(tmp_path), FIRST, SECOND, "compact")
    return str(tmp_path)


def test_an_instant_is_exact_to_the_microsecond() -> None:
    assert instant(1_767_614_400_000_001) == NOON + timedelta(microseconds=1)


def test_before_the_first_step_there_is_nothing(tmp_path: Path) -> None:
    assert read_snapshot(str(tmp_path)) == Snapshot()
    assert history(str(tmp_path)) == []


def test_each_step_can_be_read_again(root: str) -> None:
    assert read_snapshot(root) == SECOND
    assert read_snapshot(root, 1) == FIRST


def test_a_step_that_does_not_follow_the_newest_is_refused(root: str) -> None:
    for former in (Snapshot(), FIRST):
        with pytest.raises(ConcurrentWriter, match="another writer"):
            commit_snapshot(root, former, Snapshot(2, 99), "step")
    assert read_snapshot(root) == SECOND


def test_the_history_names_position_time_and_operation(root: str) -> None:
    newest, oldest = history(root)
    assert (newest.version, newest.seq, newest.operation) == (2, 25, "compact")
    assert (oldest.version, oldest.seq, oldest.operation) == (1, 10, "step")
    assert oldest.committed_at <= newest.committed_at <= datetime.now(UTC)


def test_a_step_is_found_by_position_or_time(root: str) -> None:
    newest, oldest = history(root)
    assert [find_step(root, seq) for seq in ("10", "24", "25", "99")] == [1, 1, 2, 2]
    assert find_step(root, newest.committed_at.isoformat()) == 2
    for early in ("9", "2020-01-01T00:00", (oldest.committed_at - timedelta(days=1)).isoformat()):
        with pytest.raises(StepNotFound, match="no step at or before"):
            find_step(root, early)


def test_tables_of_an_earlier_release_are_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(TablesOutdated, match="choose a new folder"):
        read_snapshot(str(tmp_path))


@pytest.mark.parametrize("as_of", ["yesterday", "-5", "2026-13-01", "\u00b2", "1e3"])
def test_what_is_no_position_and_no_time_is_refused_with_examples(root: str, as_of: str) -> None:
    with pytest.raises(ValueError, match="neither a record number, such as 250000, nor an instant"):
        find_step(root, as_of)
