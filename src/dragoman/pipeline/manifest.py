"""The manifest of an export: its segments, and the plan of which to read next.

Pure: text in, plan out. Callers read the text and check the files.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class ManifestDamaged(ValueError):
    """The text is no manifest."""


class SegmentError(Exception):
    """A range of the ledger cannot be read. The message names the range; no table was changed."""

    def __init__(self, message: str, first: int, last: int) -> None:
        super().__init__(f"{message} (records {first} to {last}); the tables are unchanged")
        self.first = first
        self.last = last


class SegmentMissing(SegmentError):
    """No segment holds these records, or its file does not exist."""


class SegmentDamaged(SegmentError):
    """A segment's file differs from its entry in the manifest."""


class OtherLedger(Exception):
    """The target holds records of another ledger; nothing was written."""


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
    """The records of a segment to read: `after < seq <= last`."""

    segment: ExportedSegment
    after: int
    last: int


def parse_manifest(text: str) -> tuple[ExportedSegment, ...]:
    """Parse a manifest; raises ManifestDamaged with the reason if that fails."""
    try:
        parsed: dict[str, Any] = json.loads(text)
        found = [
            ExportedSegment(
                str(s["file"]),
                int(s["first"]),
                int(s["last"]),
                int(s["rows"]),
                str(s["sha256"]),
                int(s["bytes"]),
            )
            for s in parsed["segments"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestDamaged(f"cannot parse the manifest: {error!r}") from error
    return tuple(sorted(found, key=lambda s: (s.first, -s.last)))


def head(segments: Iterable[ExportedSegment]) -> int:
    """Return the newest record of any segment; 0 when there is none."""
    return max((s.last for s in segments), default=0)


def plan(
    segments: Iterable[ExportedSegment], after: int, upto: int | None = None
) -> list[SegmentRange]:
    """Plan the reads so that each record after a position is read exactly once.

    Segments that were read before, are listed twice or overlap contribute each record once.
    Raises `SegmentMissing` if no segment holds some range.
    """
    ranges: list[SegmentRange] = []
    covered = after
    for segment in sorted(segments, key=lambda s: (s.first, -s.last)):
        if segment.last <= covered or (upto is not None and segment.first > upto):
            continue
        if segment.first > covered + 1:
            raise SegmentMissing(
                "no segment of the manifest holds these records (new tables cannot begin after "
                "`sealed_days` has removed segments: copy the old ones, or keep the old tables)"
                if covered == 0
                else "no segment of the manifest holds these records",
                covered + 1,
                segment.first - 1,
            )
        last = segment.last if upto is None else min(segment.last, upto)
        ranges.append(SegmentRange(segment, covered, last))
        covered = segment.last
    return ranges
