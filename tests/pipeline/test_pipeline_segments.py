from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, export, rows

from dragoman.pipeline.manifest import SegmentDamaged, SegmentMissing, SegmentRange, plan
from dragoman.pipeline.segments import check_files, read_manifest, read_records

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_segments_are_checked_and_read_by_url(spark: SparkSession, tmp_path: Path) -> None:
    history = History()
    for n in range(4):
        history.submit(f"j{n}")
    url = f"file://{export(tmp_path / 'with space', history.records, 2)}"
    ranges = plan(read_manifest(spark, url), 0)
    check_files(spark, url, ranges)
    assert rows(read_records(spark, url, ranges), "seq") == [(1,), (2,), (3,), (4,)]
    overlapping = [ranges[0], SegmentRange(ranges[1].segment, 3)]
    assert rows(read_records(spark, url, overlapping), "seq") == [(1,), (2,), (4,)]


def test_a_file_of_another_size_or_content_is_damaged(spark: SparkSession, tmp_path: Path) -> None:
    history = History()
    history.submit()
    folder = export(tmp_path, history.records)
    (only,) = plan(read_manifest(spark, folder), 0)
    for wrong in ({"bytes": 1}, {"sha256": "0" * 64}):
        other = SegmentRange(replace(only.segment, **wrong), 0)
        with pytest.raises(SegmentDamaged, match="records 1 to 1"):
            check_files(spark, folder, [other])
    gone = SegmentRange(replace(only.segment, file="seg-gone.parquet"), 0)
    with pytest.raises(SegmentMissing, match=r"seg-gone.parquet does not exist"):
        check_files(spark, folder, [gone])
