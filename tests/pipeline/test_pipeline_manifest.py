import json

import pytest

from dragoman.pipeline.manifest import (
    ExportedSegment,
    SegmentMissing,
    head,
    parse_manifest,
    plan,
)


def segment(first: int, last: int) -> ExportedSegment:
    return ExportedSegment(f"seg-{first}-{last}.parquet", first, last, last - first + 1, "", 1)


def taken(
    *segments: ExportedSegment, after: int = 0, upto: int | None = None
) -> list[tuple[int, int]]:
    return [(p.after, p.last) for p in plan(segments, after, upto)]


def test_a_manifest_is_read_in_order_of_its_records() -> None:
    one = {"file": "b", "first": 3, "last": 4, "rows": 2, "sha256": "x", "bytes": 9}
    two = {"file": "a", "first": 1, "last": 2, "rows": 2, "sha256": "y", "bytes": 8, "min_at": 1.0}
    found = parse_manifest(json.dumps({"segments": [one, two]}))
    assert [s.file for s in found] == ["a", "b"]
    assert head(found) == 4


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"segments": [{}]}', '{"segments": [1]}'])
def test_text_that_is_no_manifest_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match="cannot parse the manifest"):
        parse_manifest(text)


def test_only_segments_with_new_records_are_read() -> None:
    known = (segment(1, 10), segment(11, 20), segment(21, 30))
    assert taken(*known) == [(0, 10), (10, 20), (20, 30)]
    assert taken(*known, after=20) == [(20, 30)]
    assert taken(*known, after=15) == [(15, 20), (20, 30)]
    assert taken(*known, after=30) == []
    assert taken(*known, after=5, upto=12) == [(5, 10), (10, 12)]


def test_a_segment_that_is_there_twice_or_overlaps_adds_nothing_twice() -> None:
    assert taken(segment(1, 10), segment(1, 10), segment(5, 20)) == [(0, 10), (10, 20)]
    assert taken(segment(1, 10), segment(1, 5), segment(6, 10)) == [(0, 10)]


@pytest.mark.parametrize(
    ("known", "after", "gone"),
    [
        ((segment(1, 10), segment(21, 30)), 0, (11, 20)),
        ((segment(11, 20),), 0, (1, 10)),
        ((segment(31, 40),), 20, (21, 30)),
    ],
)
def test_the_error_names_the_missing_range(
    known: tuple[ExportedSegment, ...], after: int, gone: tuple[int, int]
) -> None:
    with pytest.raises(SegmentMissing, match=f"records {gone[0]} to {gone[1]}") as raised:
        plan(known, after)
    assert (raised.value.first, raised.value.last) == gone
