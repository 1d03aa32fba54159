"""A local cache of downloaded files, keyed by digest and bounded in size.

Several workers of one machine share the folder. If it is too large, the least recently used files
are removed first. Files used within the last hour stay: a task may be about to open one.
"""

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Final

#: Maximum size in bytes. The newest file stays even if it alone is larger.
LARGEST_CACHE: Final = 4 * 1024**3
#: Files used within so many seconds are never removed.
IN_USE: Final = 3600.0


class FileCache:
    """A folder of cached files."""

    def __init__(self, folder: Path, largest: int = LARGEST_CACHE, in_use: float = IN_USE) -> None:
        self.folder = folder
        self._largest = largest
        self._in_use = in_use

    def place(self, sha256: str, name: str) -> Path:
        """Return the path of a file's copy, whether it exists or not."""
        return self.folder / sha256[:2] / sha256 / name

    def has(self, copy: Path) -> bool:
        """Return whether a copy exists; this also marks it as used now."""
        try:
            os.utime(copy.parent)
        except FileNotFoundError:
            return False
        return copy.exists()

    def trim(self, keep: Path) -> None:
        """Remove the least recently used copies until the rest fits."""
        found = sorted(self._entries())
        total = sum(size for _, size, _ in found)
        for used_at, size, entry in found:
            if total <= self._largest or used_at > time.time() - self._in_use:
                return
            if entry != keep.parent:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Return each copy's time of last use, size and folder."""
        found = []
        for entry in self.folder.glob("??/*"):
            # Another worker may remove it at the same moment.
            with contextlib.suppress(OSError):
                size = sum(file.stat().st_size for file in entry.iterdir())
                found.append((entry.stat().st_mtime, size, entry))
        return found
