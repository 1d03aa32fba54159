"""A stream gives the tables of a batch run, byte for byte, however the ledger is cut."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.pipeline.records import listed, relist

from dragoman.pipeline.snapshot import Snapshot
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.stream import stream
from dragoman.pipeline.tables import TABLES, read_table, table_bytes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def assert_equal(one: TableStore, two: TableStore) -> None:
    """Compare every table, as bytes."""
    for name in TABLES:
        left, right = (table_bytes(read_table(store, name)) for store in (one, two))
        assert left == right, f"{name} differs"


def test_a_stream_gives_the_tables_of_the_batch_and_stops_at_a_hole(
    spark: SparkSession, planted: Path, tables: TableStore, tmp_path: Path
) -> None:
    whole = listed(planted)
    root = str(tmp_path / "tables")
    seen: list[Snapshot] = []
    try:
        # The third segment comes late: the stream stops before the hole, and goes on afterwards.
        relist(planted, [*whole[:2], whole[3]])
        with pytest.raises(StreamingQueryException, match="records 3001 to 4500"):
            stream(
                spark, str(planted), root, every=None, most_rows=2_600, notice=seen.append
            ).awaitTermination()
    finally:
        relist(planted, whole)
    assert [snapshot.seq for snapshot in seen] == [2_600]
    stream(
        spark, str(planted), root, every=None, most_rows=2_600, notice=seen.append
    ).awaitTermination()
    assert [snapshot.seq for snapshot in seen] == [2_600, 5_200, 6_000]
    assert_equal(tables, TableStore(spark, root))
