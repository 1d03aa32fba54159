import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline.assignments import SCHEMA, assignments

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_each_attempt_is_a_row_with_its_outcome(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    job = history.submit()
    history.dispatch(job)
    history.requeue(job, "w1", 1, "handed_back")
    history.dispatch(job, "w2", 2)
    history.end(job, "w2", 2)
    history.dispatch(history.submit("open"), "w1")
    found = assignments(folded(spark, history))
    assert found.schema.simpleString() == SCHEMA.simpleString()
    names = ("job", "attempt", "worker", "session", "outcome", "fault", "run_us", "result_bytes")
    assert rows(found, *names) == [
        ("j", 1, "w1", 1, "requeued", "handed_back", 1_000_000, 0),
        ("j", 2, "w2", None, "succeeded", "", 1_000_000, 5),
        ("open", 1, "w1", 1, "running", "", None, 0),
    ]


def test_a_part_ends_when_it_is_gathered_or_with_its_job(spark: SparkSession) -> None:
    history = History()
    job = history.submit(target="w1,w2")
    history.about(job, Kind.BOUND, detail="w1\nw2")
    history.dispatch(job, "w1")
    history.dispatch(job, "w2", part=1)
    history.about(job, Kind.GATHERED, part=1, worker="w2", attempt=1, state="failed", nbytes=3)
    history.about(job, Kind.ENDED, state="expired", fault="job_timeout")
    found = assignments(folded(spark, history))
    names = ("part", "outcome", "fault", "ended_seq", "result_bytes")
    assert rows(found, *names) == [
        (0, "expired", "job_timeout", 6, 0),
        (1, "failed", "", 5, 3),
    ]
