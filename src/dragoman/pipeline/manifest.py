"""What the exporter says it wrote: the list of segments, and which of them come next.

Pure: text in, plan out. Reading the text and checking the bytes is the callers' work.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class SegmentError(Exception):
    """A range of the ledger cannot be read; nothing was changed. Names the range."""

    def __init__(self, message: str, first: int, last: int) -> None:
        super().__init__(f"{message} (records {first} to {last}); the tables are unchanged")
        self.first = first
        self.last = last


class SegmentMissing(SegmentError):
    """No segment has these records, or its file is gone."""


class SegmentDamaged(SegmentError):
    """A segment's file is not what the manifest says was written."""


@dataclass(frozen=True)
class ExportedSegment:
    """One immutable file of consecutive records; `file` is relative to the export's folder."""

    file: str
    first: int
    last: int
    rows: int
    sha256: str
    bytes: int


@dataclass(frozen=True)
class SegmentRange:
    """The part of a segment that is wanted: `after < seq <= last`."""

    segment: ExportedSegment
    after: int

    @property
    def last(self) -> int:
        """The newest record wanted of the segment."""
        return self.segment.last


def parse_manifest(text: str) -> tuple[ExportedSegment, ...]:
    """Read a manifest; raises ValueError with a sentence if it is not one."""
    try:
        said: dict[str, Any] = json.loads(text)
        found = [
            ExportedSegment(
                str(s["file"]),
                int(s["first"]),
                int(s["last"]),
                int(s["rows"]),
                str(s["sha256"]),
                int(s["bytes"]),
            )
            for s in said["segments"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the manifest cannot be read: {error!r}") from error
    return tuple(sorted(found, key=lambda s: (s.first, -s.last)))


def head(segments: Iterable[ExportedSegment]) -> int:
    """Return the newest record of any segment; 0 when there is none."""
    return max((s.last for s in segments), default=0)


def plan(
    segments: Iterable[ExportedSegment], after: int, upto: int | None = None
) -> list[SegmentRange]:
    """Choose what to read so that every record after a position comes exactly once.

    A segment that was read before, or is listed twice, or overlaps another adds nothing twice.
    Raises `SegmentMissing` where a range is in no segment.
    """
    pieces: list[SegmentRange] = []
    covered = after
    for segment in sorted(segments, key=lambda s: (s.first, -s.last)):
        if segment.last <= covered or (upto is not None and segment.first > upto):
            continue
        if segment.first > covered + 1:
            raise SegmentMissing("the manifest has a hole", covered + 1, segment.first - 1)
        pieces.append(SegmentRange(segment, covered))
        covered = segment.last
    return pieces
