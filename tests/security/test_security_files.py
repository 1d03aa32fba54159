"""Small files, replaced whole."""

import os
from pathlib import Path

from dragoman.security.files import replace_file, stamp_of


def test_a_file_is_replaced_whole_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, b"one")
    first = stamp_of(path)
    replace_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert stamp_of(path) != first
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_draft_of_a_process_that_died_is_replaced(
    tmp_path: Path,
) -> None:
    (tmp_path / "file.new").write_bytes(b"half")
    replace_file(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_file_that_is_not_there_has_no_stamp(tmp_path: Path) -> None:
    assert stamp_of(tmp_path / "file") is None
