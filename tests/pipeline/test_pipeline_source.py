import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThan, LessThanOrEqual, StringContains
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.pipeline.records import History, export, listed, relist, rows

from dragoman.pipeline.manifest import SegmentDamaged, SegmentMissing
from dragoman.pipeline.schema import RECORD
from dragoman.pipeline.source import (
    DragomanSource,
    SegmentPartition,
    SegmentReader,
    SegmentStreamReader,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    history = History()
    for n in range(10):
        history.end(history.submit(f"j{n}"))
    export(tmp_path / "export", history.records, 8, 12)
    return tmp_path / "export"


def reader(folder: Path, **options: str) -> SegmentReader:
    source = DragomanSource({"path": str(folder)} | options)
    return source.reader(source.schema())


def stream(folder: Path, **options: str) -> SegmentStreamReader:
    return DragomanSource({"path": str(folder)} | options).streamReader(RECORD)


def seqs(found: SegmentReader | SegmentStreamReader, parts: list[SegmentPartition]) -> list[int]:
    batches = [batch for each in parts for batch in found.read(each)]
    return [row["seq"] for batch in batches for row in batch.to_pylist()]


def spans(parts: object) -> list[tuple[int, int]]:
    return [(s.after, s.upto) for s in parts]  # type: ignore[attr-defined]


def test_a_batch_read_has_every_record_once(folder: Path) -> None:
    found = reader(folder)
    assert seqs(found, [*found.partitions()]) == [*range(1, 21)]  # type: ignore[list-item]


def test_filters_on_the_number_leave_out_whole_segments(folder: Path) -> None:
    found = reader(folder)
    pushed = [GreaterThan(("seq",), 9), LessThanOrEqual(("seq",), 11), EqualTo(("kind",), "ended")]
    unknown = StringContains(("detail",), "x")
    assert [*found.pushFilters([*pushed, unknown])] == [*pushed, unknown]
    parts = [*found.partitions()]
    assert spans(parts) == [(9, 11)]
    assert seqs(found, parts) == [10]  # type: ignore[arg-type]


def test_a_stream_goes_on_where_it_was_and_within_its_limit(folder: Path) -> None:
    found = stream(folder, maxRows="5")
    start = found.initialOffset()
    limit = found.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    end = found.latestOffset(start, limit)
    assert (start, end) == ({"seq": 0}, {"seq": 5})
    assert spans(found.partitions({"seq": 5}, {"seq": 10})) == [(5, 8), (8, 10)]
    assert found.latestOffset({"seq": 18}, limit) == {"seq": 20}
    assert found.latestOffset({"seq": 20}, ReadAllAvailable()) == {"seq": 20}


def test_a_partition_that_is_read_again_is_the_same(folder: Path) -> None:
    found = stream(folder)
    parts = [*found.partitions({"seq": 3}, {"seq": 13})]
    first, second = (seqs(found, parts) for _ in range(2))  # type: ignore[arg-type]
    assert first == second == [*range(4, 14)]


def test_a_stream_of_the_current_segments_ignores_later_ones(folder: Path) -> None:
    whole = listed(folder)
    relist(folder, whole[:1])
    found = stream(folder)
    found.prepareForTriggerAvailableNow()
    relist(folder, whole)
    assert found.latestOffset({"seq": 0}, ReadAllAvailable()) == {"seq": 8}


def test_a_hole_a_lost_file_and_a_damaged_one_stop_it(folder: Path) -> None:
    found = stream(folder)
    whole = listed(folder)
    relist(folder, [whole[0], whole[2]])
    with pytest.raises(SegmentMissing, match="records 9 to 12"):
        found.partitions({"seq": 0}, {"seq": 20})
    relist(folder, whole)
    parts: list[SegmentPartition] = [*found.partitions({"seq": 0}, {"seq": 20})]  # type: ignore[list-item]
    path = folder / whole[1]["file"]
    shutil.copy(folder / whole[0]["file"], path)
    with pytest.raises(SegmentDamaged, match="records 9 to 12"):
        seqs(found, parts)
    path.unlink()
    with pytest.raises(SegmentMissing, match="does not exist"):
        seqs(found, parts)


def test_without_a_path_it_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="no path"):
        DragomanSource({}).reader(RECORD)


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_spark_finds_the_format_by_itself_and_reads_chosen_columns(
    spark: SparkSession, folder: Path
) -> None:
    found = spark.read.format("dragoman").option("columns", "seq,kind").load(str(folder))
    assert found.columns == ["seq", "kind"]
    wanted = found.where("seq > 16 and kind = 'ended'")
    assert rows(wanted, "seq") == [(18,), (20,)]
    whole = spark.read.format("dragoman").load(str(folder))
    assert whole.schema.simpleString() == RECORD.simpleString()
    assert whole.count() == 20
