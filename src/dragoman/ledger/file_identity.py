"""Detects that open files are no longer the ones at their paths.

A process writes to a deleted or moved file without any error. What it acknowledges then is lost
with its last open descriptor.
"""

from pathlib import Path

from dragoman.ledger.base import LedgerMissing


class FileIdentity:
    """The files at some paths, by device and inode. A path without a file is not watched."""

    def __init__(self, *paths: Path) -> None:
        found = ((path, _identity(path)) for path in paths)
        self._known = {path: identity for path, identity in found if identity is not None}

    def require_unchanged(self) -> None:
        """Raise LedgerMissing if a path has no file or another one."""
        for path, known in self._known.items():
            found = _identity(path)
            if found == known:
                continue
            what = "was deleted or moved" if found is None else "was replaced by another file"
            raise LedgerMissing(
                f"{path} {what} while the broker has it open",
                f"move the original back to {path.parent}; if it was deleted, stop the broker and"
                " restore a backup (`dragoman ledger restore`)",
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
