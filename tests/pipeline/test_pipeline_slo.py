from datetime import date

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline.jobs import jobs
from dragoman.pipeline.slo import GOOD_WITHIN_US, SCHEMA, slo

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_slow_and_failed_jobs_burn_the_budget_and_cancelled_ones_do_not(
    spark: SparkSession,
) -> None:
    history = History()
    for n in range(8):
        history.end(history.submit(f"good-{n}"))
    history.end(history.submit("slow"), after=GOOD_WITHIN_US / 1e6 + 1)
    history.end(history.submit("failed"), state="failed")
    history.about(history.submit("cancelled"), Kind.ENDED, state="cancelled")
    monday = date(2026, 1, 5)
    former = [("math", 0.99, 90, 0, 0.0, 90, 0, 1.0, date(2026, 1, 4))]
    former += [("math", 0.99, 7, 7, 0.0, 7, 7, 0.0, date(2025, 12, 1))]
    known = spark.createDataFrame(former, SCHEMA)
    found = slo(jobs(folded(spark, history)), known, monday)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    ((day, good, bad, window_good, window_bad, burn, left),) = rows(
        found, "day", "good", "bad", "window_good", "window_bad", "burn_rate", "budget_left"
    )
    assert (day, good, bad, window_good, window_bad) == (monday, 8, 2, 98, 2)
    assert burn == pytest.approx(20.0)
    assert left == pytest.approx(-1.0)
