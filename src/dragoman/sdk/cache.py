"""Where copies of files are kept: by their digest, and not more of them than a bound.

Several workers of a machine share one such folder. When it is too full, what was used longest ago
goes first; never what was used just now, for a task may be about to open it.
"""

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Final

#: Bytes a cache may hold; the newest copy stays, however large it is.
LARGEST_CACHE: Final = 4 * 1024**3
#: What was used within so many seconds stays.
IN_USE: Final = 3600.0


class FileCache:
    """A folder of copies."""

    def __init__(self, folder: Path, largest: int = LARGEST_CACHE, in_use: float = IN_USE) -> None:
        self.folder = folder
        self._largest = largest
        self._in_use = in_use

    def place(self, sha256: str, name: str) -> Path:
        """Say where the copy of a file is, or would be."""
        return self.folder / sha256[:2] / sha256 / name

    def has(self, copy: Path) -> bool:
        """Tell whether a copy is there; asking is using it."""
        try:
            os.utime(copy.parent)
        except FileNotFoundError:
            return False
        return copy.exists()

    def trim(self, keep: Path) -> None:
        """Remove what was used longest ago until the rest is within the bound."""
        found = sorted(self._entries())
        total = sum(size for _, size, _ in found)
        for used_at, size, entry in found:
            if total <= self._largest or used_at > time.time() - self._in_use:
                return
            if entry != keep.parent:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Return every copy: when it was used last, its size and its folder."""
        found = []
        for entry in self.folder.glob("??/*"):
            # Another worker may be removing it at this moment.
            with contextlib.suppress(OSError):
                size = sum(file.stat().st_size for file in entry.iterdir())
                found.append((entry.stat().st_mtime, size, entry))
        return found
