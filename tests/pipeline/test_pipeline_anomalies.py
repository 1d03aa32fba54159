from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.pipeline.records import rows

from dragoman.pipeline import service_minutes
from dragoman.pipeline.anomalies import LEAST_HISTORY, SCHEMA, anomalies

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
START = datetime(2026, 1, 5, 10, tzinfo=UTC)


def minute(number: int, **fields: Any) -> list[Any]:
    at = START + timedelta(minutes=number)
    quiet = {"submitted": 20 + number % 3, "refused": 0, "failed": 0, "expired": 0, "dead": 0}
    base = {"service": "math", "dialect": "nfp", "minute": at, "backlog": 0, "day": at.date()}
    row = base | quiet | {"queue_p99_us": 1_000, "run_p99_us": 50_000 + number} | fields
    return [row.get(name) for name in service_minutes.SCHEMA.fieldNames()]


def scored(spark: SparkSession, *minutes: list[Any], since: int = 0) -> list[tuple[Any, ...]]:
    known = spark.createDataFrame([*minutes], service_minutes.SCHEMA)
    found = anomalies(known, START + timedelta(minutes=since))
    assert found.schema.simpleString() == SCHEMA.simpleString()
    sign = F.signum("score").cast("int").alias("sign")
    return rows(
        found.select("metric", sign, F.minute("minute").alias("at")), "metric", "sign", "at"
    )


def test_a_minute_far_outside_its_history_is_an_anomaly_and_its_neighbours_are_not(
    spark: SparkSession,
) -> None:
    history = [minute(n) for n in range(60)]
    burst = minute(65, submitted=400, failed=30)
    assert scored(spark, *history, minute(64), burst) == [("failures", 1, 5), ("submitted", 1, 5)]


def test_without_enough_history_there_is_no_score(spark: SparkSession) -> None:
    history = [minute(n) for n in range(60 - LEAST_HISTORY + 1, 60)]
    assert scored(spark, *history, minute(65, submitted=9_999)) == []


def test_minutes_before_the_first_one_wanted_are_not_judged_again(spark: SparkSession) -> None:
    history = [minute(n) for n in range(60)]
    assert scored(spark, *history, minute(65, submitted=400), minute(70), since=66) == []
