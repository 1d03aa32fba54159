from datetime import date

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline.clients import SCHEMA, clients
from dragoman.pipeline.jobs import jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_asking_counts_on_its_day_and_ending_on_its_own(spark: SparkSession) -> None:
    history = History()
    job = history.submit()
    history.submit("open")
    history.add(Kind.REFUSED, client="nfp/anna", dialect="nfp", fault="queue_full")
    history.end(job, after=86_400.0, state="failed")
    refusals = history.frame(spark).where("kind = 'refused'")
    monday, tuesday = date(2026, 1, 5), date(2026, 1, 6)
    found = clients(jobs(folded(spark, history)), refusals, monday)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    names = ("day", "submitted", "refused", "failed", "request_bytes", "result_bytes")
    assert rows(found, *names) == [(monday, 2, 1, 0, 20, 0), (tuesday, 0, 0, 1, 0, 5)]
    later = clients(jobs(folded(spark, history)), refusals, tuesday)
    assert rows(later, "day", "failed") == [(tuesday, 1)]
