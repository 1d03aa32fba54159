import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, annotated, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline import job_fold
from dragoman.pipeline.job_fold import fold_jobs, is_late, is_notable
from dragoman.pipeline.job_records import until_end

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_a_folded_job_has_the_fields_of_each_kind_of_record(spark: SparkSession) -> None:
    history = History()
    job = history.submit()
    history.dispatch(job)
    history.about(job, Kind.ACCEPTED, worker="w1")
    history.requeue(job, "w1", 1, "handed_back")
    history.dispatch(job, "w2", 2)
    history.end(job, "w2", 2)
    (row,) = folded(spark, history).collect()
    assert (row.given.submitted_seq, row.end.end_seq, row.last_seq) == (1, 6, 6)
    assert sorted((d.dispatched_seq, d.worker) for d in row.dispatched) == [(2, "w1"), (5, "w2")]
    assert [a.seq for a in row.accepted] == [3]
    assert [(s.seq, s.outcome, s.fault) for s in row.stopped] == [(4, "requeued", "handed_back")]
    assert (row.attempts, row.requeues, row.hops, row.cancels, row.result_bytes) == (2, 1, 0, 0, 5)


def test_a_job_without_a_submitted_record_has_no_row(spark: SparkSession) -> None:
    history = History()
    job = history.submit("known")
    history.end(job)
    history.add(Kind.ENDED, job="stray", state="succeeded", submitted_at=job.submitted_at)
    assert rows(folded(spark, history), "job") == [("known",)]
    every = job_fold.fold_jobs(annotated(spark, history))
    assert rows(every.where("given is null"), "job") == [("stray",)]


def test_the_order_of_the_records_does_not_matter(spark: SparkSession) -> None:
    history = History()
    for name in ("one", "two"):
        job = history.submit(name)
        history.dispatch(job)
        history.end(job)
    reversed_input = fold_jobs(until_end(annotated(spark, history)).orderBy("seq", ascending=False))
    names = ("job", "given", "end", "came", "dispatched", "last_seq")
    assert rows(reversed_input, *names) == rows(folded(spark, history), *names)


def test_sorted_records_are_aggregated_in_one_pass(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History()
    history.end(history.submit())
    fold_jobs(
        history.frame(spark).selectExpr("*", "cast(null as bigint) as session", "'' as said")
    ).explain()
    plan = capsys.readouterr().out
    assert plan.count("SortAggregate") == plan.count("Aggregate") == 1


def test_of_several_parts_each_result_must_be_of_the_newest_dispatch(spark: SparkSession) -> None:
    history = History()
    for name, late in (("plain", "w2"), ("stale", "w1")):
        job = history.submit(name)
        history.dispatch(job, "w1", part=0)
        history.dispatch(job, "w1", part=1)
        history.requeue(job, "w1", 1, "handed_back")
        history.dispatch(job, "w2", 2, part=0)
        history.about(job, Kind.GATHERED, part=0, worker=late, attempt=0, state="succeeded")
        history.end(job, "w1", 1, part=1)
    found = fold_jobs(annotated(spark, history))
    assert rows(found.where(is_notable()), "job") == [("stale",)]


def test_records_after_the_end_make_a_job_late(spark: SparkSession) -> None:
    history = History()
    for name in ("late", "done"):
        job = history.submit(name)
        history.dispatch(job)
        history.end(job)
    history.about(history.records[0], Kind.CANCEL_ASKED)
    history.submit("open")
    found = fold_jobs(annotated(spark, history))
    assert rows(found.where(is_late()), "job") == [("late",)]
    assert rows(found.where(is_notable()), "job") == [("late",), ("open",)]
