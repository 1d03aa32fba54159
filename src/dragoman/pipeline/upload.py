"""Copying an export to object storage: new segments first, then the manifest that names them.

Readers begin with the manifest, so they see a segment only when it is whole. The copy keeps
segments that the broker has removed (`sealed_days`), so it becomes the longer history.
"""

import json
from dataclasses import dataclass
from typing import Any

from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import ExportedSegment, head, parse_manifest, plan
from dragoman.pipeline.storage import join, read_bytes, write_bytes

MANIFEST = "manifest.json"


class OtherLedger(Exception):
    """The target holds segments of another ledger; nothing was copied."""


@dataclass(frozen=True)
class UploadSummary:
    """The result of an upload."""

    #: The newest record at the target before, and after.
    after: int
    upto: int
    segments: int = 0
    bytes: int = 0


def upload(source: str, target: str) -> UploadSummary:
    """Copy the segments that the target does not have; return what was copied.

    Each file is checked against the manifest before it is copied. If the process is killed, the
    next upload copies the same segments again, under the same names.
    """
    export, there = Export(source), _manifest(target)
    known = parse_manifest(json.dumps(there))
    after = head(known)
    segments = export.segments()
    _require_same_ledger(segments, known, target)
    ranges = plan(segments, after)
    for each in ranges:
        write_bytes(join(target, each.segment.file), export.read(each.segment))
    if ranges:
        wanted = {each.segment.file for each in ranges}
        here = json.loads(read_bytes(join(source, MANIFEST)))
        fresh = [entry for entry in here["segments"] if entry["file"] in wanted]
        whole = here | {"segments": [*there["segments"], *fresh]}
        write_bytes(join(target, MANIFEST), json.dumps(whole, indent=1).encode() + b"\n")
    size = sum(each.segment.bytes for each in ranges)
    return UploadSummary(after, ranges[-1].last if ranges else after, len(ranges), size)


def _manifest(target: str) -> dict[str, Any]:
    """Return the manifest at the target; an empty one if there is none."""
    try:
        found: dict[str, Any] = json.loads(read_bytes(join(target, MANIFEST)))
    except FileNotFoundError:
        return {"segments": []}
    return found


def _require_same_ledger(
    here: tuple[ExportedSegment, ...], there: tuple[ExportedSegment, ...], target: str
) -> None:
    digests = {segment.file: segment.sha256 for segment in there}
    for segment in here:
        if digests.get(segment.file, segment.sha256) != segment.sha256:
            raise OtherLedger(
                f"{target} holds the export of another ledger: its {segment.file} differs; "
                "choose another target"
            )
    if there and head(here) < head(there):
        raise OtherLedger(
            f"{target} has records up to {head(there)}, but this export ends at {head(here)}: it "
            "is another ledger, or an older copy; choose another target"
        )
