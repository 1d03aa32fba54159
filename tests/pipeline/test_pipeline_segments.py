from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, export, rows

from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import SegmentRange
from dragoman.pipeline.segments import read_records

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_each_record_is_read_once_also_from_a_part_of_a_segment(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History()
    for n in range(4):
        history.submit(f"j{n}")
    url = f"file://{export(tmp_path / 'with space', history.records, 2)}"
    ranges = Export(url).after(0)
    assert rows(read_records(spark, url, ranges), "seq") == [(1,), (2,), (3,), (4,)]
    overlapping = [ranges[0], SegmentRange(ranges[1].segment, 3)]
    assert rows(read_records(spark, url, overlapping), "seq") == [(1,), (2,), (4,)]
