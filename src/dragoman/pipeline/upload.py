"""Copying an export to object storage: new segments first, then the manifest that names them.

Readers begin with the manifest, so they see a segment only when it is whole. The copy keeps
segments that the broker has removed (`sealed_days`), so it becomes the longer history.

The nodes of a cluster have the same records, but cut them into segments at different places. If
one continues the copy of another, it cuts its first segment, so that the target has each record
once.
"""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.pipeline.export import Export, parse_at
from dragoman.pipeline.manifest import (
    ExportedSegment,
    OtherLedger,
    SegmentRange,
    head,
    plan,
)
from dragoman.pipeline.storage import join, read_bytes, write_bytes

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"

SegmentEntry = dict[str, Any]


@dataclass(frozen=True)
class UploadSummary:
    """The result of an upload."""

    #: The newest record at the target before, and after.
    after: int
    upto: int
    segments: int = 0
    bytes: int = 0


def upload(
    source: str,
    target: str,
    require_turn: Callable[[], None] = lambda: None,
    *,
    is_one_of_several: bool = False,
) -> UploadSummary:
    """Copy the segments that the target does not have; return what was copied.

    Each file is checked against the manifest before it is copied. If the process is killed, the
    next upload copies the same segments again, under the same names.

    Args:
        source: the export.
        target: where it is copied to.
        require_turn: is called before the manifest is written; what it raises ends the upload.
        is_one_of_several: whether other nodes of a cluster copy to this target, too. Then an export
            that is behind the target is not wrong, and has nothing to copy.

    """
    export, (there, known) = Export(source), _manifest(target)
    after = head(known)
    # Read once: the broker may remove old segments meanwhile.
    data = export.read_manifest()
    segments, here = parse_at(export.manifest, data), json.loads(data)
    if not is_one_of_several:
        _require_same_ledger(segments, known, target)
    # Other ledgers cut other segments, so their files may have no name in common.
    if head(segments) > after > 0:
        _require_same_record(export, segments, Export(target), known)
    ranges = plan(segments, after) if head(segments) > after else []
    entries = {str(entry["file"]): entry for entry in here["segments"]}
    fresh = []
    for each in ranges:
        entry, data = _piece(export, each, entries[each.segment.file])
        if is_one_of_several:
            # A process that stood still may write late. It must not change what is published.
            digest = entry["sha256"][:16]
            entry = entry | {"file": f"{entry['file'].removesuffix('.parquet')}-{digest}.parquet"}
        write_bytes(join(target, entry["file"]), data)
        fresh.append(entry)
    if fresh:
        require_turn()
        whole = here | {"segments": [*there["segments"], *fresh]}
        write_bytes(join(target, MANIFEST), json.dumps(whole, indent=1).encode() + b"\n")
    size = sum(int(entry["bytes"]) for entry in fresh)
    return UploadSummary(after, ranges[-1].last if ranges else after, len(ranges), size)


def _piece(export: Export, wanted: SegmentRange, entry: SegmentEntry) -> tuple[SegmentEntry, bytes]:
    """Return a segment, or the part of it that the target lacks."""
    data = export.read(wanted.segment)
    return (
        _cut(data, entry, wanted.after) if wanted.after >= wanted.segment.first else (entry, data)
    )


def _cut(data: bytes, entry: SegmentEntry, after: int) -> tuple[SegmentEntry, bytes]:
    """Return the part of a segment behind a record, as a segment of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = _table(data)
    rest = table.filter(pc.greater(table["seq"], pa.scalar(after)))
    sink = io.BytesIO()
    pq.write_table(rest, sink, compression="zstd", sorting_columns=[pq.SortingColumn(0)])
    made, instants = sink.getvalue(), rest["at"].cast(pa.int64())
    return entry | {
        "file": f"seg-{after + 1:020d}-{entry['last']:020d}.parquet",
        "first": after + 1,
        "rows": rest.num_rows,
        "bytes": len(made),
        "sha256": hashlib.sha256(made).hexdigest(),
        "min_at": pc.min(instants).as_py() / 1e6,
        "max_at": pc.max(instants).as_py() / 1e6,
    }, made


def _table(data: bytes) -> "pa.Table":
    import pyarrow.parquet as pq

    return pq.read_table(io.BytesIO(data))


def _manifest(target: str) -> tuple[dict[str, Any], tuple[ExportedSegment, ...]]:
    """Return the manifest at the target and its segments; an empty one if there is none."""
    uri = join(target, MANIFEST)
    try:
        data = read_bytes(uri)
    except FileNotFoundError:
        return {"segments": []}, ()
    known = parse_at(uri, data)
    return json.loads(data), known


def _require_same_record(
    export: Export,
    here: tuple[ExportedSegment, ...],
    target: Export,
    there: tuple[ExportedSegment, ...],
) -> None:
    """Compare the newest record of the target with that of the export, if it still has it."""
    seq = head(there)
    own = next((each for each in here if each.first <= seq <= each.last), None)
    if own is None:
        return  # `sealed_days` has removed it
    last = max(there, key=lambda each: each.last)
    if last.sha256 == own.sha256:
        return
    ours, theirs = _row(export.read(own), seq), _row(target.read(last), seq)
    common = ours.keys() & theirs.keys()
    if any(ours[name] != theirs[name] for name in common):
        raise OtherLedger(
            f"{target.path} holds the export of another ledger: its record {seq} differs; "
            "choose another target"
        )


def _row(data: bytes, seq: int) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = _table(data)
    found: dict[str, Any] = table.filter(pc.equal(table["seq"], pa.scalar(seq))).to_pylist()[0]
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
