from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.records import rows

from dragoman.pipeline.schema import columns
from dragoman.pipeline.store import MERGE_AT, TableStore

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
SCHEMA = columns("""
    name string
    day date
""")
MON, TUE, WED = date(2026, 1, 5), date(2026, 1, 6), date(2026, 1, 7)
NOW = datetime(2026, 1, 7, 12, 0, 0, 5, UTC)


def named(spark: SparkSession, *found: tuple[str, date | None]) -> DataFrame:
    return spark.createDataFrame([*found], SCHEMA)


def test_settled_rows_add_up_and_unsettled_ones_are_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path))
    step = store.begin()
    step.append("t", named(spark, ("a", MON), ("open", None)))
    step.commit(1, NOW)
    step = store.begin()
    step.append("t", named(spark, ("b", TUE), ("still open", None)))
    assert rows(step.written("t", SCHEMA), "name") == [("b",), ("still open",)]
    step.commit(2, NOW)
    again = TableStore(spark, str(tmp_path))
    assert rows(again.read("t", SCHEMA), "name") == [("a",), ("b",), ("still open",)]
    assert rows(again.read("t", SCHEMA, TUE), "name") == [("b",), ("still open",)]
    assert (again.snapshot.seq, again.snapshot.horizon) == (2, NOW)


def test_days_from_one_on_are_replaced_and_carried_tables_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path))
    step = store.begin()
    step.replace("t", named(spark, ("a", MON), ("b", TUE), ("c", WED)), MON)
    step.carry("c", named(spark, ("x", None)).select("name"))
    step.commit(1, NOW)
    step = store.begin()
    step.replace("t", named(spark, ("B", TUE)), TUE)
    step.carry("c", named(spark, ("y", None)).select("name"))
    step.commit(2, NOW)
    assert rows(store.read("t", SCHEMA), "name") == [("B",), ("a",)]
    assert rows(store.read("c", columns("name string")), "name") == [("y",)]


def test_rows_without_a_commit_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    store = TableStore(spark, str(tmp_path))
    step = store.begin()
    step.append("t", named(spark, ("a", MON)))
    step.commit(1, NOW)
    store.begin().append("t", named(spark, ("killed", MON)))
    again = TableStore(spark, str(tmp_path))
    assert rows(again.read("t", SCHEMA), "name") == [("a",)]
    step = again.begin()
    step.append("t", named(spark, ("b", MON)))
    step.commit(2, NOW)
    assert rows(again.read("t", SCHEMA), "name") == [("a",), ("b",)]


def test_many_small_versions_are_merged_and_old_ones_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path))
    for n in range(MERGE_AT):
        step = store.begin()
        step.append("t", named(spark, (f"{n:02d}", MON), ("open", None)))
        step.merge("t", SCHEMA)
        step.commit(n, NOW)
    (only,) = store.snapshot.parts["t"]
    assert only.level == 1
    assert len(rows(store.read("t", SCHEMA), "name")) == MERGE_AT + 1
    for n in range(3):
        step = store.begin()
        step.append("t", named(spark, (f"later {n}", MON)))
        step.commit(100 + n, NOW)
    assert len(rows(store.read("t", SCHEMA), "name")) == MERGE_AT + 3
    assert len([*(tmp_path / "t").iterdir()]) < MERGE_AT
    assert len([*(tmp_path / "log").iterdir()]) <= 4


def test_a_table_that_was_never_written_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    found = TableStore(spark, str(tmp_path)).read("t", SCHEMA)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    assert rows(found, "name") == []
