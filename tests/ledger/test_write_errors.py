"""Each cause of a failed write has its own hint."""

import errno
import os
from pathlib import Path

import apsw
import pytest

from dragoman.ledger import write_errors
from dragoman.ledger.base import LedgerFull, LedgerIoError
from dragoman.ledger.write_errors import probe, unwritable


def test_a_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    probe(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_probe_of_a_deleted_folder_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(LedgerIoError, match="No such file") as caught:
        probe(tmp_path / "gone")
    assert caught.value.hint == f"put the folder {tmp_path / 'gone'} back"


@pytest.mark.parametrize(
    ("number", "kind", "hint"),
    [
        (errno.ENOSPC, LedgerFull, "free some space"),
        (errno.EDQUOT, LedgerFull, "quota"),
        (errno.EROFS, LedgerIoError, "remount"),
        (errno.EIO, LedgerIoError, "check the disk"),
    ],
)
def test_the_hint_fits_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type, hint: str
) -> None:
    def fail(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(write_errors, "_write_page", fail)
    found = unwritable(tmp_path / "ledger", apsw.IOError("disk I/O error"))
    assert type(found) is kind
    assert hint in found.hint
    assert os.strerror(number) in str(found)


def test_an_io_error_on_a_disk_with_space_does_not_ask_for_space(tmp_path: Path) -> None:
    found = unwritable(tmp_path / "ledger", apsw.IOError("disk I/O error"))
    assert type(found) is LedgerIoError
    assert found.hint == f"check the disk of {tmp_path} (kernel messages, SMART)"


def test_a_full_disk_asks_for_space(tmp_path: Path) -> None:
    found = unwritable(tmp_path / "ledger", apsw.FullError("database or disk is full"))
    assert type(found) is LedgerFull
    assert found.hint == f"free some space on the disk of {tmp_path}"
