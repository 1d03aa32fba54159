"""The head file: the lock of a ledger, and the number of its last acknowledged record.

SQLite silently drops a damaged end of its write-ahead log, and with it the last commits. The head
file detects that: after each commit the number of its last record is written here. It is not
synced, because that would double the cost of a commit. So after a power failure it may be behind
the ledger, but never ahead.

The file is locked while the ledger is open. The system releases the lock when the process ends.
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
            self.last_seq = self._read()  #: the newest record known to be acknowledged
        except LedgerError:
            os.close(self._file)
            raise

    def write(self, seq: int) -> None:
        """Store that everything up to `seq` is durable."""
        os.pwrite(self._file, _pack(seq), 0)
        self.last_seq = seq

    def close(self) -> None:
        """Sync the file and release the lock."""
        os.fsync(self._file)
        os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError(
                f"{self.path} is locked: another process has this ledger open; stop it first"
            ) from None

    def _read(self) -> int:
        found = os.pread(self._file, _LAYOUT.size, 0)
        if not found.strip(b"\0"):  # new, or not synced before a power failure
            return 0
        if len(found) == _LAYOUT.size:
            seq: int = _LAYOUT.unpack(found)[1]
            if found == _pack(seq):
                return seq
        raise LedgerError(
            f"{self.path} is damaged, so missing records cannot be detected; check that the newest "
            "records are in the ledger, then remove this file"
        )


def read_head(path: Path) -> int:
    """Return the sequence number in a head file, without locking it; 0 if unreadable."""
    try:
        found = path.read_bytes()
    except OSError:
        return 0
    seq = int(_LAYOUT.unpack(found)[1]) if len(found) == _LAYOUT.size else 0
    return seq if found == _pack(seq) else 0


def _pack(seq: int) -> bytes:
    return _LAYOUT.pack(_MAGIC, seq, crc32(seq.to_bytes(8, "big")))
