import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, annotated, rows

from dragoman.model.record import Kind
from dragoman.pipeline import control, job_fold, job_records
from dragoman.pipeline.job_records import after_the_end, still_open, strays, until_end

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_each_record_knows_its_dispatch_and_its_end(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    job = history.submit()
    history.dispatch(job)
    history.requeue(job, "w1", 1, "handed_back")
    history.dispatch(job, "w2", 2)
    history.end(job, "w2", 2)
    found = rows(
        annotated(spark, history), "seq", "submitted_seq", "held_seq", "end_seq", "session"
    )
    assert found == [
        (2, 2, None, 6, None),
        (3, 2, 3, 6, 1),
        (4, 2, 3, 6, 1),
        (5, 2, 5, 6, None),
        (6, 2, 5, 6, None),
    ]


def test_records_are_before_the_end_open_after_the_end_or_stray(spark: SparkSession) -> None:
    history = History()
    done = history.submit("done")
    history.end(done)
    history.end(done)
    history.submit("open")
    history.add(Kind.ENDED, job="unknown", submitted_at=5.0, state="failed")
    found = annotated(spark, history).cache()
    assert rows(until_end(found), "seq") == [(1,), (2,), (4,)]
    assert rows(after_the_end(found), "seq") == [(3,)]
    assert rows(still_open(found), "job") == [("open",)]
    assert rows(strays(found), "job") == [("unknown",)]


def test_an_id_that_is_used_again_is_another_job(spark: SparkSession) -> None:
    history = History()
    history.end(history.submit("same"))
    history.submit("same")
    found = annotated(spark, history)
    assert rows(found, "seq", "submitted_seq", "end_seq") == [(1, 1, 2), (2, 1, 2), (3, 3, None)]


def test_only_jobs_that_are_open_or_may_break_a_rule_are_annotated(
    spark: SparkSession,
) -> None:
    history = History()
    history.join("w1")
    plain = history.submit("plain")
    history.dispatch(plain)
    history.requeue(plain, "w1", 1, "handed_back")
    history.dispatch(plain, attempt=2)
    history.end(plain, attempt=2)
    history.dispatch(history.submit("open"))
    twice = history.submit("twice")
    history.dispatch(twice)
    history.end(twice)
    history.end(twice)
    stale = history.submit("stale")
    history.dispatch(stale)
    history.dispatch(stale, "w2", attempt=2)
    history.end(stale)
    lost = history.submit("lost")
    history.dispatch(lost)
    history.requeue(lost, "w1", 1, "worker_lost")
    history.dispatch(lost, attempt=2)
    history.end(lost, attempt=2)
    history.end(history.submit("undispatched"))
    records = history.frame(spark)
    known = control.control(records)
    lived = job_records.job_records(records, control.spans(known), [])
    found = job_fold.fold_jobs(lived).where(job_fold.is_notable())
    jobs = ["lost", "open", "stale", "twice", "undispatched"]
    assert rows(found, "job") == [(job,) for job in jobs]
    chosen = job_records.of_keys(lived, found)
    assert {row.job for row in chosen.collect()} == {*jobs}
