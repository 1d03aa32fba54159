"""The head file: the lock and the last acknowledged record."""

from pathlib import Path

import pytest

from dragoman.ledger.base import LedgerError
from dragoman.ledger.head import HeadFile, is_damaged, read_head


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


def numbers(path: Path) -> list[int]:
    """Write 76 and then 77; return where their bytes are."""
    head = HeadFile(path)
    head.write(76)
    head.write(77)
    head.close()
    return [place for place, byte in enumerate(path.read_bytes()) if byte]


def test_a_torn_write_leaves_the_number_before_it(tmp_path: Path) -> None:
    path = tmp_path / "head"
    for place in numbers(path):
        whole = bytearray(path.read_bytes())
        whole[place] ^= 0x10
        path.write_bytes(whole)
        head = HeadFile(path)
        assert head.last_seq in (76, 77)
        head.close()
        path.unlink()
        numbers(path)


def test_damage_in_both_slots_is_noticed_and_the_lock_is_released(tmp_path: Path) -> None:
    path = tmp_path / "head"
    places = numbers(path)
    whole = bytearray(path.read_bytes())
    for place in (places[0], places[-1]):
        whole[place] ^= 0x10
    path.write_bytes(whole)
    assert is_damaged(path)
    for _ in range(2):
        with pytest.raises(LedgerError, match="is damaged"):
            HeadFile(path)


def test_a_file_with_one_slot_is_read(tmp_path: Path) -> None:
    """Older versions wrote one number."""
    path = tmp_path / "head"
    numbers(path)
    path.write_bytes(path.read_bytes()[:20])
    assert read_head(path) in (76, 77)
    assert not is_damaged(path)
    path.write_bytes(path.read_bytes()[:17])
    assert is_damaged(path)


def test_a_missing_file_says_nothing(tmp_path: Path) -> None:
    assert read_head(tmp_path / "none") == 0
    assert not is_damaged(tmp_path / "none")
