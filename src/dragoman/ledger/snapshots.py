"""Snapshots on disk and in memory: rows of plain values, framed and checksummed.

A snapshot belongs to one position of one ledger: its head names the last record that it covers, and
the ledger's mark of that record. It saves time and holds nothing that the ledger lacks: whoever
finds it damaged, foreign or of another version ignores it and reads the ledger.

Layout: eight bytes that name the format, then frames of length, CRC32 and MessagePack. The first
frame is the head, the last one the number of frames between. Nothing here knows SQLite or jobs.
"""

import os
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, Protocol
from zlib import crc32

import msgspec

from dragoman.ledger.atomic_file import rename_durably
from dragoman.model.value import value

#: The snapshot in the data folder.
SNAPSHOT_FILE: Final = "ledger.snapshot"
_MAGIC: Final = b"drgsnap1"
_FRAME: Final = Struct(">II")
#: A longer frame is damage: no block of rows comes near it.
_LONGEST: Final = 1 << 30
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


class SnapshotUnusable(Exception):
    """A snapshot that must be ignored; the message says why."""


@value
class SnapshotHead:
    """Which records a snapshot covers."""

    #: The last record that it covers.
    seq: int
    #: The ledger's mark of that record.
    mark: str


class Snapshots(Protocol):
    """A place that keeps the newest snapshot. The file and its twin in memory implement it."""

    def write(self, head: SnapshotHead, rows: Iterable[object]) -> None:
        """Replace the snapshot, at once and durably."""
        ...

    def head(self) -> SnapshotHead | None:
        """Return the head; None: there is no snapshot. Raises SnapshotUnusable."""
        ...

    def rows(self) -> Iterator[Any]:
        """Yield the rows. Raises SnapshotUnusable as soon as damage is found, at last at the end.

        So a reader must not use any row before it has got all of them.
        """
        ...


class FileSnapshots:
    """A snapshot in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, head: SnapshotHead, rows: Iterable[object]) -> None:
        """Replace the file; a power failure leaves the old one or the new one, whole."""
        draft = self.path.with_name(self.path.name + ".part")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            write_frames(file, head, rows)
        rename_durably(draft, self.path)

    def head(self) -> SnapshotHead | None:
        """Return the head; None: there is no file."""
        file = self._open()
        if file is None:
            return None
        with file:
            return _read_head(file)

    def rows(self) -> Iterator[Any]:
        """Yield the rows."""
        file = self._open()
        if file is None:
            raise SnapshotUnusable("it is missing")
        with file:
            _read_head(file)
            yield from _read_rows(file)

    def _open(self) -> BinaryIO | None:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SnapshotUnusable(f"it cannot be opened: {error.strerror}") from error


class MemorySnapshots:
    """The twin in memory, for tests and the simulation: `content` is what a file would hold."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content

    def write(self, head: SnapshotHead, rows: Iterable[object]) -> None:
        """Replace the snapshot."""
        file = BytesIO()
        write_frames(file, head, rows)
        self.content = file.getvalue()

    def head(self) -> SnapshotHead | None:
        """Return the head; None: there is no snapshot."""
        return _read_head(BytesIO(self.content)) if self.content else None

    def rows(self) -> Iterator[Any]:
        """Yield the rows."""
        file = BytesIO(self.content)
        _read_head(file)
        yield from _read_rows(file)


def write_frames(file: BinaryIO, head: SnapshotHead, rows: Iterable[object]) -> None:
    """Write a whole snapshot."""
    file.write(_MAGIC)
    _write(file, {"seq": head.seq, "mark": head.mark})
    count = 0
    for row in rows:
        _write(file, ["row", row])
        count += 1
    _write(file, ["end", count])


def _write(file: BinaryIO, content: object) -> None:
    payload = _encode(content)
    file.write(_FRAME.pack(len(payload), crc32(payload)))
    file.write(payload)


def _read_head(file: BinaryIO) -> SnapshotHead:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise SnapshotUnusable("it has another format, or its beginning is damaged")
    found = _read(file)
    try:
        return SnapshotHead(int(found["seq"]), str(found["mark"]))
    except (LookupError, TypeError, ValueError):
        raise SnapshotUnusable("its head is damaged") from None


def _read_rows(file: BinaryIO) -> Iterator[Any]:
    count = 0
    while True:
        kind, content = _read(file)
        if kind == "end":
            break
        count += 1
        yield content
    if content != count or file.read(1):
        raise SnapshotUnusable(f"it has {count} rows, but says {content}")


def _read(file: BinaryIO) -> Any:
    head = file.read(_FRAME.size)
    if len(head) != _FRAME.size:
        raise SnapshotUnusable("it is cut off")
    length, checksum = _FRAME.unpack(head)
    payload = file.read(length) if length < _LONGEST else b""
    if len(payload) != length or crc32(payload) != checksum:
        raise SnapshotUnusable(f"a checksum is wrong near byte {file.tell()}")
    return _decode(payload)
