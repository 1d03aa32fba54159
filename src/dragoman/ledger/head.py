"""The head file: the lock of a ledger, and the number of its last acknowledged record.

SQLite silently drops a damaged end of its write-ahead log, and with it the last commits. The head
file detects that: after each commit the number of its last record is written here. It is not
synced, because that would double the cost of a commit. So after a power failure it may be behind
the ledger, but never ahead.

The file has two slots, written in turn. A write that a power failure tore leaves the other one.

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
#: Where the slots begin, in sectors of their own.
_SLOTS: Final = (0, 4096)


class HeadFile:
    """A locked file that holds one sequence number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._slot = 0
        self._is_new = True
        try:
            self._lock()
            self.last_seq = self._read()  #: the newest record known to be acknowledged
        except LedgerError:
            os.close(self._file)
            raise

    def write(self, seq: int) -> None:
        """Store that everything up to `seq` is durable."""
        self._slot = 1 - self._slot
        # The first write fills both slots, so that a torn one never leaves an unused one alone.
        for offset in _SLOTS if self._is_new else (_SLOTS[self._slot],):
            os.pwrite(self._file, _pack(seq), offset)
        self._is_new = False
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
        seqs = _slots(self._file)
        found = [(seq, slot) for slot, seq in enumerate(seqs) if seq is not None]
        if _is_unknown(seqs):
            raise LedgerError(
                f"{self.path} is damaged, so missing records cannot be detected; check that the "
                "newest records are in the ledger, then remove this file"
            )
        seq, self._slot = max(found)
        return seq


def _is_unknown(seqs: list[int | None]) -> bool:
    """Tell whether a slot is damaged and the other one says nothing."""
    return None in seqs and not any(seqs)


def _slots(file: int) -> list[int | None]:
    """Return the number in each slot; None: damaged. An unused slot holds 0."""
    return [_unpack(os.pread(file, _LAYOUT.size, offset)) for offset in _SLOTS]


def _unpack(found: bytes) -> int | None:
    if not found.strip(b"\0"):  # new, or not synced before a power failure
        return 0
    if len(found) != _LAYOUT.size:
        return None
    seq: int = _LAYOUT.unpack(found)[1]
    return seq if found == _pack(seq) else None


def is_damaged(path: Path) -> bool:
    """Tell whether a head file does not say which record is the last."""
    return _is_unknown(_read_slots(path))


def read_head(path: Path) -> int:
    """Return the sequence number in a head file, without locking it; 0 if unreadable."""
    return max((seq for seq in _read_slots(path) if seq is not None), default=0)


def _read_slots(path: Path) -> list[int | None]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return _slots(file)
    finally:
        os.close(file)


def _pack(seq: int) -> bytes:
    return _LAYOUT.pack(_MAGIC, seq, crc32(seq.to_bytes(8, "big")))
