"""The head file: the lock and the last acknowledged record."""

from pathlib import Path

import pytest

from dragoman.ledger.base import LedgerError
from dragoman.ledger.head import HeadFile


def test_it_remembers_the_number_and_begins_at_zero(tmp_path: Path) -> None:
    head = HeadFile(tmp_path / "head")
    assert head.last_seq == 0
    head.write(2**40)
    head.close()
    again = HeadFile(tmp_path / "head")
    assert again.last_seq == 2**40
    again.close()


def test_only_one_can_hold_it_and_the_error_names_the_path(tmp_path: Path) -> None:
    head = HeadFile(tmp_path / "head")
    with pytest.raises(LedgerError, match=f"{tmp_path}/head is locked: another process"):
        HeadFile(tmp_path / "head")
    head.close()
    HeadFile(tmp_path / "head").close()


@pytest.mark.parametrize("content", [b"", b"\0" * 20])
def test_a_file_that_never_reached_the_disk_counts_as_new(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "head").write_bytes(content)
    head = HeadFile(tmp_path / "head")
    assert head.last_seq == 0
    head.close()


def test_any_changed_byte_is_noticed_and_the_lock_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "head"
    head = HeadFile(path)
    head.write(77)
    head.close()
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(LedgerError, match="is damaged"):
            HeadFile(path)
    path.write_bytes(whole[:-3])
    with pytest.raises(LedgerError, match="is damaged"):
        HeadFile(path)
