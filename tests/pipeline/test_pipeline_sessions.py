from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.pipeline.records import NOON, History, rows

from dragoman.model.record import Kind
from dragoman.pipeline import session_days
from dragoman.pipeline.control import control
from dragoman.pipeline.sessions import SCHEMA, base_sessions, sessions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_a_session_lasts_from_joined_to_left(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    history.resync("w1")
    history.leave("w1", fault="worker_lost", detail="no beat", count=7)
    history.join("w1")
    found = base_sessions(control(history.frame(spark)))
    names = ("session", "resyncs", "left_seq", "why", "fault", "beats")
    assert rows(found, *names) == [
        (1, 1, 3, "no beat", "worker_lost", 7),
        (4, 0, None, "", "", 0),
    ]
    assert found.where("day is null").count() == 1


def test_a_restart_puts_sessions_in_doubt_until_their_workers_speak(spark: SparkSession) -> None:
    history = History()
    history.join("silent")
    history.join("speaks")
    history.join("returns")
    mark = history.add(Kind.STARTED)
    history.resync("speaks")
    history.join("returns")
    found = base_sessions(control(history.frame(spark))).withColumn(
        "is_settled", F.col("day").isNotNull()
    )
    ended = F.unix_micros("left_at")
    names = ("worker", "session", "why", "is_settled", "ended")
    at = round(mark.at * 1e6)
    assert rows(found.withColumn("ended", ended), *names) == [
        ("returns", 3, "the broker started", True, at),
        ("returns", 6, "", False, None),
        ("silent", 1, "the broker started", False, at),
        ("speaks", 2, "", False, None),
    ]


def test_who_joins_again_without_leaving_ends_the_first_session(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    history.join("w1")
    found = base_sessions(control(history.frame(spark)))
    assert rows(found, "session", "why") == [(1, "joined again"), (2, "")]


def test_what_a_session_did_comes_from_its_days(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    known = base_sessions(control(history.frame(spark)))
    day = {"peer": "zss/w1", "session": 1, "dispatched": 3, "busy_us": 2_000_000}
    full = {name: day.get(name) for name in session_days.SCHEMA.fieldNames()}
    did = spark.createDataFrame([tuple(full.values())] * 2, session_days.SCHEMA)
    horizon = datetime.fromtimestamp(NOON + 9, UTC)
    found = sessions(known, did, horizon)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    names = ("assignments", "busy_us", "connected_us", "busy_share")
    assert rows(found, *names) == [(6, 4_000_000, 8_000_000, 0.5)]
