from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.records import rows

from dragoman.pipeline import assignments, sessions
from dragoman.pipeline.session_days import SCHEMA, session_days

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
MONDAY = date(2026, 1, 5)


def at(hour: int, minute: int = 0, day: int = 5) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def filled(spark: SparkSession, schema: Any, *found: dict[str, Any]) -> DataFrame:
    same = {"peer": "zss/w1", "session": 1, "worker": "w1"}
    complete = [[(same | row).get(name) for name in schema.fieldNames()] for row in found]
    return spark.createDataFrame(complete, schema)


def work(job: str, start: datetime, end: datetime | None, **fields: Any) -> dict[str, Any]:
    run = None if end is None else round((end - start).total_seconds() * 1e6)
    times = {"dispatched_at": start, "ended_at": end, "run_us": run}
    return {"job": job, "outcome": "succeeded", "fault": ""} | times | fields


def test_overlapping_work_counts_once_and_midnight_cuts(spark: SparkSession) -> None:
    done = filled(
        spark,
        assignments.SCHEMA,
        work("a", at(10), at(11)),
        work("b", at(10, 30), at(11, 30)),
        work("c", at(23), at(1, day=6), outcome="failed", fault="task_failed"),
    )
    base = filled(spark, sessions.BASE, {"joined_at": at(9), "left_at": None})
    found = session_days(done, base, MONDAY, at(2, day=6))
    assert found.schema.simpleString() == SCHEMA.simpleString()
    hour = 3_600_000_000
    names = ("day", "busy_us", "connected_us", "dispatched", "ended", "failed", "slowest_job")
    assert rows(found, *names) == [
        (MONDAY, hour * 5 // 2, 15 * hour, 3, 2, 0, "b"),
        (date(2026, 1, 6), hour, 2 * hour, 0, 1, 1, "c"),
    ]


def test_work_that_is_not_over_counts_up_to_the_session_or_the_horizon(spark: SparkSession) -> None:
    done = filled(
        spark,
        assignments.SCHEMA,
        work("a", at(10), None),
        work("b", at(10), None, peer="zss/w2", worker="w2"),
        work("c", at(10), None, peer="zss/w3", worker="w3", session=9),
    )
    base = filled(
        spark,
        sessions.BASE,
        {"joined_at": at(9), "left_at": at(11)},
        {"peer": "zss/w2", "worker": "w2", "joined_at": at(9), "left_at": None},
    )
    found = session_days(done, base, MONDAY, at(13))
    hour = 3_600_000_000
    assert rows(found, "worker", "busy_us", "leaves") == [
        ("w1", hour, 1),
        ("w2", 3 * hour, 0),
        ("w3", 0, 0),
    ]


def test_days_before_the_first_one_wanted_are_left_out(spark: SparkSession) -> None:
    done = filled(spark, assignments.SCHEMA, work("a", at(23), at(1, day=6)))
    base = filled(spark, sessions.BASE, {"joined_at": at(9), "left_at": None})
    found = session_days(done, base, date(2026, 1, 6), at(2, day=6))
    assert rows(found, "day", "busy_us", "joins") == [(date(2026, 1, 6), 3_600_000_000, 0)]
