from datetime import date

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import rows

from dragoman.pipeline import session_days
from dragoman.pipeline.worker_days import SCHEMA, worker_days

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_the_sessions_of_a_day_are_summed_by_worker(spark: SparkSession) -> None:
    day = date(2026, 1, 5)
    one = ("p", 1, "w1", 100, 40, 2, 2, 1, 0, 60, 50, "slow", 1, 1, day)
    two = ("p", 9, "w1", 100, 10, 1, 1, 0, 1, 10, 10, "fast", 1, 0, day)
    idle = ("q", 3, "w2", 0, 0, 0, 0, 0, 0, 0, None, None, 1, 0, day)
    known = spark.createDataFrame([one, two, idle], session_days.SCHEMA)
    found = worker_days(known)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    names = ("worker", "sessions", "flaps", "utilisation", "mean_run_us", "slowest_job", "lost")
    assert rows(found, *names) == [
        ("w1", 2, 1, 0.25, 23, "slow", 1),
        ("w2", 1, 0, None, None, None, 0),
    ]
