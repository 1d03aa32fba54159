"""The head file: one broker at a time, and a witness of what was acknowledged.

SQLite drops a damaged end of its write-ahead log without a word, as if the last commits had
never been. The head file is how the ledger notices: after each commit the number of its last
record is written here. It is not synced (that would double the cost of a commit), so after a
power cut it may be behind the ledger, but it is never ahead of what was durable.

The file is also the lock. It is held for as long as the ledger is open, and the system lets go
of it when the process ends, however it ends.
"""

import fcntl
import os
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from dragoman.ledger.base import LedgerError

_LAYOUT: Final = Struct(">8sQI")
_MAGIC: Final = b"drg-head"


class HeadFile:
    """A locked file that holds one sequence number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            self.last_seq = self._read()  #: the newest record ever acknowledged, as far as known
        except LedgerError:
            os.close(self._file)
            raise

    def write(self, seq: int) -> None:
        """Note that everything up to `seq` is durable."""
        os.pwrite(self._file, _pack(seq), 0)
        self.last_seq = seq

    def close(self) -> None:
        """Make the note durable and let go of the lock."""
        os.fsync(self._file)
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError(
                f"{self.path} is locked: another process has this ledger open"
            ) from None

    def _read(self) -> int:
        found = os.pread(self._file, _LAYOUT.size, 0)
        if not found.strip(b"\0"):  # new, or a power cut came before its first sync
            return 0
        if len(found) == _LAYOUT.size:
            seq: int = _LAYOUT.unpack(found)[1]
            if found == _pack(seq):
                return seq
        raise LedgerError(
            f"{self.path} is damaged: how far the ledger reached is not known from it; check that "
            "the newest records are there, then remove this file"
        )


def read_head(path: Path) -> int:
    """Return what a head file says, without its lock; 0 where it says nothing that can be read."""
    try:
        found = path.read_bytes()
    except OSError:
        return 0
    seq = int(_LAYOUT.unpack(found)[1]) if len(found) == _LAYOUT.size else 0
    return seq if found == _pack(seq) else 0


def _pack(seq: int) -> bytes:
    return _LAYOUT.pack(_MAGIC, seq, crc32(seq.to_bytes(8, "big")))
