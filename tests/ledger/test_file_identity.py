"""Open files that are no longer at their path are noticed."""

from pathlib import Path

import pytest

from dragoman.ledger.base import LedgerMissing
from dragoman.ledger.file_identity import FileIdentity


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "file"
    path.parent.mkdir()
    path.write_text("original")
    return path


def test_an_unchanged_file_is_no_trouble_even_after_a_write(file: Path) -> None:
    identity = FileIdentity(file)
    file.write_text("more")
    identity.require_unchanged()


def test_a_file_of_a_deleted_folder_is_noticed(file: Path) -> None:
    identity = FileIdentity(file)
    file.unlink()
    file.parent.rmdir()
    with pytest.raises(LedgerMissing, match="was deleted or moved"):
        identity.require_unchanged()


def test_a_replaced_file_is_noticed_although_its_content_is_the_same(file: Path) -> None:
    identity = FileIdentity(file)
    other = file.with_name("other")
    other.write_text("original")
    other.rename(file)
    with pytest.raises(LedgerMissing, match="was replaced by another file"):
        identity.require_unchanged()


def test_a_path_without_a_file_is_not_watched(tmp_path: Path) -> None:
    FileIdentity(tmp_path / "none").require_unchanged()
