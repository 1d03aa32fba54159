from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.pipeline.records import History, folded

from dragoman.model.record import Kind
from dragoman.pipeline.assignments import assignments
from dragoman.pipeline.jobs import jobs
from dragoman.pipeline.service_minutes import SCHEMA, service_minutes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def history() -> History:
    """Three minutes: two jobs come and wait, they run, they end; one more is refused."""
    history = History()
    one, two = history.submit("one"), history.submit("two", after=50.0)
    history.dispatch(one, after=30.0)
    history.dispatch(two, after=1.0)
    history.end(one, after=60.0)
    history.end(two, after=1.0, state="failed", fault="task_failed")
    history.add(Kind.REFUSED, service="math", dialect="nfp", fault="queue_full")
    return history


def minutes(spark: SparkSession, history: History, since: datetime) -> list[tuple[object, ...]]:
    found = folded(spark, history).cache()
    refusals = history.frame(spark).where("kind = 'refused'")
    wanted = F.col("ended_at").isNull() | (F.col("ended_at") >= F.lit(since))
    result = service_minutes(
        jobs(found).where(wanted), assignments(found).where(wanted), refusals, since
    )
    assert result.schema.simpleString() == SCHEMA.simpleString()
    chosen = (
        result.withColumn("at", F.minute("minute"))
        .orderBy("minute")
        .select(
            "at", "submitted", "refused", "ended", "faults", "queue_p50_us", "backlog", "running"
        )
    )
    return [tuple(row) for row in chosen.collect()]


def test_each_minute_has_its_rate_faults_percentiles_and_levels(
    spark: SparkSession, history: History
) -> None:
    assert minutes(spark, history, NOON) == [
        (0, 2, 0, 0, {}, None, 2, 0),
        (1, 0, 0, 0, {}, None, 0, 2),
        (2, 0, 1, 2, {"queue_full": 1, "task_failed": 1}, 55_500_000, 0, 0),
    ]


def test_later_minutes_alone_have_the_same_levels(spark: SparkSession, history: History) -> None:
    whole = minutes(spark, history, NOON)
    assert minutes(spark, history, NOON.replace(minute=1)) == whole[1:]
    assert minutes(spark, history, NOON.replace(minute=2)) == whole[2:]
