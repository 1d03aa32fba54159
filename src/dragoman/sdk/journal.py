"""A journal on disk: an append-only file of lines. NCL nodes keep their store in it.

`append` hands every line to the operating system before it returns, so lines survive a killed
process. With `is_synced` they survive a power cut too, at the cost of an fsync for each line.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dragoman.dialects.ncl.store import NodeStore

#: A store is compacted after so many lines.
COMPACT_AFTER: Final = 100_000


class Journal:
    """Lines in a file. `read` also returns a torn last line, left by a crash during a write."""

    def __init__(self, path: Path, *, is_synced: bool = False) -> None:
        self.path = path
        self._is_synced = is_synced
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def read(self) -> list[bytes]:
        """Return every line."""
        return self.path.read_bytes().splitlines()

    def append(self, line: bytes) -> None:
        """Add a line."""
        os.write(self._file, line + b"\n")
        if self._is_synced:
            os.fsync(self._file)

    def replace(self, lines: Iterable[bytes]) -> None:
        """Replace all lines, atomically."""
        part = self.path.with_name(self.path.name + ".part")
        with part.open("wb") as file:
            file.writelines(line + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)
        if self._is_synced:
            _sync_folder(self.path.parent)
        self.close()
        self._file = self._open()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()


def _sync_folder(folder: Path) -> None:
    """Make a rename in the folder durable."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def open_store(path: str, remember: int, *, is_synced: bool = False) -> NodeStore:
    """Open a compute node's store; compact it now and after every `COMPACT_AFTER` lines."""
    journal = Journal(Path(path), is_synced=is_synced)
    written = 0

    def write(line: bytes) -> None:
        nonlocal written
        journal.append(line)
        written += 1
        if written >= COMPACT_AFTER:
            written = 0
            journal.replace(store.snapshot())

    store = NodeStore(write, remember)
    store.load(journal.read())
    journal.replace(store.snapshot())
    return store
