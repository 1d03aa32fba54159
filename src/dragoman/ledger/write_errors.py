"""Why the ledger's disk takes no write, and what helps.

SQLite reports most failures as "disk I/O error". A small write beside the ledger finds the cause.
"""

import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from dragoman.ledger.base import LedgerFull, LedgerIoError, LedgerUnwritable

_PROBE: Final = ".dragoman-probe"
_PAGE: Final = 4096
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_HINTS: Final = {
    errno.ENOSPC: "free some space on the disk of {folder}",
    errno.EDQUOT: "raise the disk quota of the broker's user, or free some space in {folder}",
    errno.EROFS: "remount the file system of {folder} for writing, after a check of the disk",
    errno.EACCES: "give the broker's user the right to write to {folder}",
    errno.ENOENT: "put the folder {folder} back",
}
_CHECK_DISK: Final = "check the disk of {folder} (kernel messages, SMART)"


def probe(folder: Path) -> None:
    """Write one page beside the ledger, and remove it. Raises LedgerUnwritable."""
    path = folder / _PROBE
    try:
        _write_page(path)
    except OSError as error:
        kind = LedgerFull if error.errno in _NO_SPACE else LedgerIoError
        hint = _HINTS.get(error.errno or 0, _CHECK_DISK).format(folder=folder)
        raise kind(f"cannot write to {folder}: {error.strerror or error}", hint) from None


def _write_page(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, b"\0" * _PAGE)
    finally:
        os.close(file)
        with suppress(OSError):
            path.unlink()


def unwritable(path: Path, error: Exception) -> LedgerUnwritable:
    """Convert SQLite's error of a write; the hint fits the cause."""
    message = f"{path}: nothing was written: {error}"
    if isinstance(error, apsw.FullError):
        return LedgerFull(message, _HINTS[errno.ENOSPC].format(folder=path.parent))
    try:
        probe(path.parent)
    except LedgerUnwritable as found:
        return type(found)(f"{message}; {found}", found.hint)
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY:
        hint = f"the broker may write at most {limit} bytes to a file; raise it with `ulimit -f`"
        return LedgerIoError(message, hint)
    return LedgerIoError(message, _CHECK_DISK.format(folder=path.parent))
