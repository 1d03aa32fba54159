"""Retention of sealed segments: which of them no reader needs any more.

A pipeline writes how far it has read into `readers/` beside the manifest. Segments that some known
reader has not read stay, whatever their age. If no reader is known, all segments stay: they are
the only copy that a pipeline could begin with.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dragoman.ledger.base import LedgerError
from dragoman.ledger.manifest import SealedSegment

READERS: Final = "readers"


class ReaderPosition(msgspec.Struct):
    """The content of a reader's file."""

    #: Where the reader keeps its tables; for people.
    tables: str
    #: The newest record that it has read.
    last: int


def read_positions(directory: Path) -> dict[str, int]:
    """Return how far each reader has read, by the location of its tables."""
    found = {}
    for path in sorted((directory / READERS).glob("*.json")):
        try:
            position = msgspec.json.decode(path.read_bytes(), type=ReaderPosition)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise LedgerError(
                f"{path} is damaged: {error}; run its pipeline again, or remove the file if that "
                "reader is gone"
            ) from None
        found[position.tables] = position.last
    return found


def removable_segments(
    segments: Sequence[SealedSegment], before_at: float, positions: Collection[int]
) -> list[SealedSegment]:
    """Return the oldest segments that are older than an instant and read by every reader.

    The newest one stays: it says where sealing goes on.
    """
    read_up_to = min(positions, default=0)
    found: list[SealedSegment] = []
    for segment in segments[:-1]:
        if segment.max_at >= before_at or segment.last > read_up_to:
            break
        found.append(segment)
    return found
