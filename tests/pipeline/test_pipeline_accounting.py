import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline.accounting import PER_JOB, PER_MEBIBYTE, PER_RUN_SECOND, SCHEMA, accounting
from dragoman.pipeline.jobs import jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_the_bill_is_for_jobs_seconds_and_bytes(spark: SparkSession) -> None:
    history = History()
    for name in ("a", "b"):
        job = history.submit(name, nbytes=1 << 20)
        history.dispatch(job)
        history.end(job, after=3.0, nbytes=1 << 20)
    other = history.submit("c", client="zss/bert", nbytes=0)
    history.about(other, Kind.ENDED, state="expired")
    ended = jobs(folded(spark, history))
    found = accounting(ended)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    full = 2 * PER_JOB + 6 * PER_RUN_SECOND + 4 * PER_MEBIBYTE
    assert rows(found, "client", "jobs", "succeeded", "run_us", "bill") == [
        ("nfp/anna", 2, 2, 6_000_000, full),
        ("zss/bert", 1, 0, 0, PER_JOB),
    ]
