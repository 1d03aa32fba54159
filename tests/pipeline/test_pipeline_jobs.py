from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline.jobs import SCHEMA, jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_a_job_is_one_row_with_its_times_and_sizes(spark: SparkSession) -> None:
    history = History()
    job = history.submit()
    history.dispatch(job)
    history.requeue(job, "w1", 1, "worker_lost")
    history.dispatch(job, "w2", 2)
    history.about(job, Kind.ACCEPTED, worker="w2")
    history.end(job, "w2", 2)
    found = jobs(folded(spark, history))
    assert found.schema.simpleString() == SCHEMA.simpleString()
    (row,) = found.collect()
    assert (row.state, row.fault, row.worker) == ("succeeded", "", "w2")
    assert (row.dialect_in, row.dialect_out, row.attempts, row.requeues) == ("nfp", "zss", 2, 1)
    assert (row.queue_us, row.run_us, row.total_us) == (1_000_000, 4_000_000, 5_000_000)
    assert (row.request_bytes, row.result_bytes) == (10, 5)
    assert (row.submitted_seq, row.started_seq, row.ended_seq) == (1, 2, 6)
    assert row.day == date(2026, 1, 5)


def test_an_open_job_has_no_day_and_no_spans_that_are_not_over(spark: SparkSession) -> None:
    history = History()
    history.submit("waits")
    history.dispatch(history.submit("runs"))
    found = jobs(folded(spark, history))
    names = ("job", "state", "queue_us", "run_us", "total_us", "day")
    assert rows(found, *names) == [
        ("runs", "running", 1_000_000, None, None, None),
        ("waits", "queued", None, None, None, None),
    ]


def test_a_job_that_never_started_waited_all_its_life(spark: SparkSession) -> None:
    history = History()
    job = history.submit()
    history.about(job, Kind.ENDED, state="expired", fault="queue_timeout")
    found = jobs(folded(spark, history))
    names = ("state", "fault", "dispatches", "queue_us", "run_us", "total_us", "dialect_out")
    assert rows(found, *names) == [("expired", "queue_timeout", 0, 1_000_000, 0, 1_000_000, "")]


def test_several_parts_and_hops_are_counted(spark: SparkSession) -> None:
    history = History()
    job = history.submit(target="w1,w2")
    history.about(job, Kind.BOUND, detail="w1\nw2")
    history.dispatch(job, "w1")
    history.dispatch(job, "w2", part=1)
    held: dict[str, Any] = {"state": "succeeded", "attempt": 1, "nbytes": 7}
    history.about(job, Kind.GATHERED, part=1, worker="w2", **held)
    history.about(job, Kind.GATHERED, part=0, worker="w1", **held)
    history.about(job, Kind.ENDED, state="succeeded")
    onward = history.submit("hops")
    history.dispatch(onward)
    history.add(Kind.FORWARDED, job="hops", service="art", submitted_at=onward.submitted_at)
    found = jobs(folded(spark, history))
    names = ("job", "parts", "dispatches", "result_bytes", "hops", "state")
    assert rows(found, *names) == [("hops", 1, 1, 0, 1, "running"), ("j", 2, 2, 14, 0, "succeeded")]
