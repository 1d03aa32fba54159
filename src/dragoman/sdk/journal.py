"""A journal on disk: lines that a restarted process reads again. Where an NCL node keeps its store.

Every line is written, and handed to the operating system, before `append` returns: it survives a
killed process. With `is_synced` it survives a power cut too, at the price of the disk's latency.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dragoman.dialects.ncl.store import NodeStore

#: So many lines later a store is written anew.
LONG: Final = 100_000


class Journal:
    """Lines in a file. A torn last line, from a crash in the middle of a write, is read too."""

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
        """Put other lines in place of all, whole or not at all."""
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
        """Let go."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()


def _sync_folder(folder: Path) -> None:
    """Have the disk know that a file in it has another content."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def open_store(path: str, remember: int, *, is_synced: bool = False) -> NodeStore:
    """Open a compute node's own ledger, made short first and whenever it has grown long."""
    journal = Journal(Path(path), is_synced=is_synced)
    written = 0

    def write(line: bytes) -> None:
        nonlocal written
        journal.append(line)
        written += 1
        if written >= LONG:
            written = 0
            journal.replace(store.snapshot())

    store = NodeStore(write, remember)
    store.load(journal.read())
    journal.replace(store.snapshot())
    return store
