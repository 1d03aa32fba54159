"""The disk that forgets: what is synced stays, and no more is promised."""

import random

from scripts.volatile_disk import DiskDirectory, DiskFile, VolatileDisk, apply_writes


def outcomes(disk: VolatileDisk) -> set[bytes | None]:
    """Return what the file `x` may contain after a cut; None: it is gone."""
    found: set[bytes | None] = set()
    for seed in range(100):
        left = disk.cut(random.Random(seed)).root.entries.get("x")
        found.add(bytes(left.content) if isinstance(left, DiskFile) else None)
    return found


def disk_with_file(content: bytes) -> tuple[VolatileDisk, DiskFile]:
    disk = VolatileDisk()
    file = disk.new_file()
    disk.root.change(x=file)
    file.write(0, content)
    return disk, file


def test_writes_apply_in_order_and_a_length_cuts_or_fills() -> None:
    content = bytearray(b"abc")
    apply_writes(content, [(5, b"xy"), (1, b"B"), (6, None)])
    assert content == b"aBc\0\0x"


def test_what_was_synced_stays() -> None:
    disk, file = disk_with_file(b"old")
    file.sync()
    disk.root.sync()
    assert outcomes(disk) == {b"old"}


def test_a_write_without_a_sync_is_kept_lost_or_torn() -> None:
    disk, file = disk_with_file(b"o" * 1024)
    file.sync()
    disk.root.sync()
    file.write(0, b"n" * 1024)
    old, new, torn = b"o" * 1024, b"n" * 1024, b"n" * 512 + b"o" * 512
    assert outcomes(disk) == {old, new, torn}


def test_a_name_needs_a_sync_of_its_folder() -> None:
    disk, file = disk_with_file(b"new")
    file.sync()
    assert outcomes(disk) == {b"new", None}


def test_a_rename_is_whole_or_not_at_all() -> None:
    disk, file = disk_with_file(b"old")
    file.sync()
    draft = disk.new_file(b"new")
    disk.root.change(draft=draft)
    disk.root.sync()
    disk.root.change(x=draft, draft=None)
    assert outcomes(disk) == {b"old", b"new"}


def test_a_folder_that_is_lost_takes_its_files_along() -> None:
    disk = VolatileDisk()
    inner = disk.new_directory()
    disk.root.change(data=inner)
    inner.change(x=disk.new_file(b"synced"))
    inner.sync()
    left = [disk.cut(random.Random(seed)).root.entries.get("data") for seed in range(20)]
    assert None in left
    assert any(isinstance(each, DiskDirectory) and "x" in each.entries for each in left)
