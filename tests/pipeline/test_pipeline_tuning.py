from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.test_pipeline_stream import assert_equal

from dragoman.pipeline import tuning
from dragoman.pipeline.run import run
from dragoman.pipeline.store import TableStore

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
NAME = "spark.sql.shuffle.partitions"


COMPILED = {
    NAME: "4",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
}


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Give the session compiled plans and several partitions, as a user's has."""
    former = {name: spark.conf.get(name) or "" for name in COMPILED}
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in former.items():
            spark.conf.set(name, value)


@pytest.mark.parametrize(("rows", "partitions"), [(1_600, "1"), (250_001, "2"), (90_000_000, "4")])
def test_settings_follow_the_number_of_records_and_are_restored(
    spark: SparkSession, rows: int, partitions: str
) -> None:
    with compiled(spark):
        with tuning.tuned(spark, rows):
            assert spark.conf.get(NAME) == partitions
            assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
        assert spark.conf.get(NAME) == "4"


def test_a_java_machine_for_a_short_run_has_one_compiler() -> None:
    one = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    assert tuning.java_options(tuning.SMALL_ROWS) == f"-XX:+UseSerialGC {one}"
    assert tuning.java_options(tuning.SHORT_ROWS) == one
    assert tuning.java_options(tuning.SHORT_ROWS + 1) == ""


def test_compiled_plans_with_several_partitions_give_the_tables_of_plain_ones(
    spark: SparkSession,
    planted: Path,
    tables: TableStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "SMALL_ROWS", 0)
    monkeypatch.setattr(tuning, "PARTITION_ROWS", 2_000)
    with compiled(spark):
        run(spark, str(planted), str(tmp_path))
    found = TableStore(spark, str(tmp_path))
    assert len(found.files("jobs")) > 2
    days = {file.day for file in found.files("clients").values()}
    assert len(found.files("clients")) == len(days)
    assert_equal(tables, found)
