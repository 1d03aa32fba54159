"""Snapshots on disk and in memory: what is written comes back, and damage never passes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.ledger.snapshots import (
    FileSnapshots,
    MemorySnapshots,
    SnapshotHead,
    Snapshots,
    SnapshotUnusable,
)

HEAD = SnapshotHead(7, "a mark")
ROWS = [{"a": 1}, [["text"], [[1, 2.5, None, True]]], {}]
Make = Callable[[Path], Snapshots]
MAKES: list[Make] = [
    lambda folder: FileSnapshots(folder / "ledger.snapshot"),
    lambda _: MemorySnapshots(),
]


@pytest.fixture(params=MAKES, ids=["file", "memory"])
def snapshots(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def content_of(snapshots: Any) -> bytes:
    return (
        snapshots.content if isinstance(snapshots, MemorySnapshots) else snapshots.path.read_bytes()
    )


def put(snapshots: Any, content: bytes) -> None:
    if isinstance(snapshots, MemorySnapshots):
        snapshots.content = content
    else:
        snapshots.path.write_bytes(content)


def read_all(snapshots: Snapshots) -> list[Any]:
    assert snapshots.head() is not None
    return list(snapshots.rows())


def test_what_is_written_comes_back(snapshots: Snapshots) -> None:
    assert snapshots.head() is None
    snapshots.write(HEAD, iter(ROWS))
    assert snapshots.head() == HEAD
    assert list(snapshots.rows()) == ROWS


def test_a_newer_one_replaces_it(snapshots: Snapshots) -> None:
    snapshots.write(HEAD, ROWS)
    snapshots.write(SnapshotHead(8, "another"), [])
    assert snapshots.head() == SnapshotHead(8, "another")
    assert list(snapshots.rows()) == []


def test_every_flipped_byte_and_every_cut_is_found(snapshots: Snapshots) -> None:
    snapshots.write(HEAD, ROWS)
    whole = content_of(snapshots)
    damaged = [whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(len(whole))]
    cut = [whole[:at] for at in range(1, len(whole))]
    for content in (*damaged, *cut, whole + b"\0"):
        put(snapshots, content)
        with pytest.raises(SnapshotUnusable):
            read_all(snapshots)


def test_rows_that_fail_leave_the_old_snapshot(tmp_path: Path) -> None:
    snapshots = FileSnapshots(tmp_path / "s")
    snapshots.write(HEAD, ROWS)
    with pytest.raises(TypeError):
        snapshots.write(SnapshotHead(9, "new"), [object()])
    assert snapshots.head() == HEAD
    assert list(snapshots.rows()) == ROWS


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    FileSnapshots(tmp_path / "s").write(HEAD, ROWS)
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


def test_rows_of_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotUnusable, match="missing"):
        list(FileSnapshots(tmp_path / "s").rows())
