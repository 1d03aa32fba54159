"""A journal on disk: lines that a restarted process reads again. Where an NCL node keeps its store.

Every line is written, and handed to the operating system, before `append` returns: it survives a
killed process. With `is_synced` it survives a power cut too, at the price of the disk's latency.
"""

import os
from collections.abc import Iterable
from pathlib import Path


class Journal:
    """Lines in a file. A torn last line, from a crash in the middle of a write, is read too."""

    def __init__(self, path: Path, *, is_synced: bool = False) -> None:
        self.path = path
        self._is_synced = is_synced
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")

    def read(self) -> list[bytes]:
        """Return every line."""
        return self.path.read_bytes().splitlines()

    def append(self, line: bytes) -> None:
        """Add a line."""
        self._file.write(line + b"\n")
        self._file.flush()
        if self._is_synced:
            os.fsync(self._file.fileno())

    def replace(self, lines: Iterable[bytes]) -> None:
        """Put other lines in place of all, whole or not at all."""
        part = self.path.with_name(self.path.name + ".part")
        with part.open("wb") as file:
            file.writelines(line + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)
        self._file.close()
        self._file = self.path.open("ab")

    def close(self) -> None:
        """Let go."""
        self._file.close()
