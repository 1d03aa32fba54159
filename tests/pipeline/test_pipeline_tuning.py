from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.test_pipeline_stream import assert_equal

from dragoman.pipeline import tuning
from dragoman.pipeline.run import run
from dragoman.pipeline.store import TableStore

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
NAME = "spark.sql.shuffle.partitions"


def test_settings_for_small_data_are_applied_and_restored(spark: SparkSession) -> None:
    spark.conf.set(NAME, "3")
    try:
        with tuning.tuned(spark, 1_600):
            assert spark.conf.get(NAME) == "1"
        assert spark.conf.get(NAME) == "3"
        with tuning.tuned(spark, 1_000_000):
            assert spark.conf.get(NAME) == "3"
    finally:
        spark.conf.set(NAME, "1")


def test_compiled_and_adaptive_plans_give_the_tables_of_plain_ones(
    spark: SparkSession,
    planted: Path,
    tables: TableStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = {
        NAME: "4",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    }
    monkeypatch.setattr(tuning, "_SMALL", full)
    run(spark, str(planted), str(tmp_path))
    assert_equal(tables, TableStore(spark, str(tmp_path)))
