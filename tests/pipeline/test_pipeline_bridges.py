import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline.bridges import SCHEMA, bridges
from dragoman.pipeline.jobs import jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_traffic_is_summed_from_dialect_to_dialect(spark: SparkSession) -> None:
    history = History()
    for n in range(3):
        job = history.submit(f"j{n}")
        history.dispatch(job)
        history.end(job, after=float(n + 1))
    lost = history.submit("lost")
    history.about(lost, Kind.ENDED, state="failed", fault="unmappable")
    found = bridges(jobs(folded(spark, history)))
    assert found.schema.simpleString() == SCHEMA.simpleString()
    names = ("dialect_in", "dialect_out", "jobs", "succeeded", "unmappable", "total_p50_us")
    assert rows(found, *names) == [
        ("nfp", "", 1, 0, 1, 1_000_000),
        ("nfp", "zss", 3, 3, 0, 3_000_000),
    ]
