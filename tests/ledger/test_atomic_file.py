"""Files are replaced atomically."""

from pathlib import Path

import pytest

from dragoman.ledger import atomic_file
from dragoman.ledger.atomic_file import make_folder, rename_durably


def test_the_steps_are_sync_rename_sync(tmp_path: Path) -> None:
    (tmp_path / "draft").write_text("new")
    (tmp_path / "name").write_text("old")
    steps: list[tuple[str, str]] = []

    def note(step: str) -> None:
        steps.append((step, (tmp_path / "name").read_text()))

    rename_durably(tmp_path / "draft", tmp_path / "name", note)
    assert steps == [("sync file", "old"), ("rename", "old"), ("sync directory", "new")]
    assert [each.name for each in tmp_path.iterdir()] == ["name"]


def test_without_a_draft_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("old")
    with pytest.raises(FileNotFoundError):
        rename_durably(tmp_path / "draft", tmp_path / "name")
    assert (tmp_path / "name").read_text() == "old"


def test_the_names_of_new_folders_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(atomic_file, "_sync", lambda path, flags: synced.append(path))
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path / "a", tmp_path]
    synced.clear()
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path / "a"], "its maker may not have synced it"
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
