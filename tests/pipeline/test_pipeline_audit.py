from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, annotated, folded, rows

from dragoman.model.record import Kind
from dragoman.pipeline import jobs
from dragoman.pipeline.audit import RULES, SCHEMA, after_own_ends, never_ended, of_jobs, of_strays
from dragoman.pipeline.job_records import strays
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.synth_plants import PLANTS
from dragoman.pipeline.tables import read_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def breaches(spark: SparkSession, history: History) -> list[tuple[object, ...]]:
    found = annotated(spark, history)
    return rows(of_jobs(found).unionAll(after_own_ends(found)), "rule", "seqs")


def test_each_planted_fault_is_found_and_nothing_else_is(tables: TableStore) -> None:
    found = read_table(tables, "audit")
    assert Counter(row.rule for row in found.collect()) == Counter(PLANTS.keys())
    assert set(PLANTS) == set(RULES)


def test_a_job_that_goes_well_breaks_nothing(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    job = history.submit()
    history.dispatch(job)
    history.leave("w1")
    history.requeue(job, "w1", 1, "worker_lost")
    history.join("w1")
    history.dispatch(job, "w1", 2)
    history.end(job, "w1", 2)
    memo = history.submit("memo")
    history.about(memo, Kind.ENDED, state="succeeded", detail="memoised from job j")
    gone = history.submit("expired")
    history.dispatch(gone, "w1", 1)
    history.requeue(gone, "w1", 1, "undelivered")
    history.about(gone, Kind.ENDED, state="expired", attempt=1)
    assert breaches(spark, history) == []


def test_a_result_of_another_worker_is_stale_even_if_the_attempt_fits(spark: SparkSession) -> None:
    history = History()
    job = history.submit()
    history.dispatch(job, "w1")
    history.end(job, "w2", 1)
    assert breaches(spark, history) == [("stale_result_applied", [2, 3])]


def test_a_part_is_judged_by_its_own_dispatches(spark: SparkSession) -> None:
    history = History()
    job = history.submit(target="w1,w2")
    history.about(job, Kind.BOUND, detail="w1\nw2")
    history.dispatch(job, "w1")
    history.about(job, Kind.GATHERED, part=0, attempt=1, worker="w1", state="succeeded")
    history.about(job, Kind.GATHERED, part=1, attempt=1, worker="w2", state="succeeded")
    history.about(job, Kind.ENDED, state="succeeded")
    assert breaches(spark, history) == [("result_without_dispatch", [1, 5])]


@pytest.mark.parametrize("sign", ["resynced", "joined", "started"])
def test_a_lease_may_end_with_its_session_or_the_broker(spark: SparkSession, sign: str) -> None:
    history = History()
    history.join("w1")
    job = history.submit()
    history.dispatch(job)
    signs = {"resynced": history.resync, "joined": history.join}
    signs.get(sign, lambda: history.add(Kind.STARTED))()
    history.requeue(job, "w1", 1, "worker_lost")
    assert breaches(spark, history) == []


def test_a_lease_that_is_broken_while_the_worker_is_there_is_told(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    history.add(Kind.STARTED)
    history.resync("w1")
    job = history.submit()
    history.dispatch(job)
    history.requeue(job, "w1", 1, "worker_lost")
    assert breaches(spark, history) == [("lease_broken", [3, 5, 6])]


def test_records_of_a_job_that_ended_before_are_told_apart(spark: SparkSession) -> None:
    history = History()
    done = history.submit("done")
    history.end(done)
    ended = jobs.jobs(folded(spark, history))
    later = History(history.now)
    later.end(done)
    later.add(Kind.ENDED, job="never submitted", submitted_at=5.0, state="failed")
    found = of_strays(strays(annotated(spark, later)), ended)
    assert found.schema.simpleString() == SCHEMA.simpleString()
    assert rows(found, "rule", "job") == [
        ("result_without_dispatch", "never submitted"),
        ("two_final_states", "done"),
    ]


def test_a_job_past_its_deadline_is_told_after_a_grace(spark: SparkSession) -> None:
    history = History()
    history.submit("late", deadline_at=history.now + 10)
    history.submit("endless")
    open_jobs = jobs.jobs(folded(spark, history))
    in_time = datetime.fromtimestamp(history.now + 65, UTC)
    too_late = datetime.fromtimestamp(history.now + 75, UTC)
    assert rows(never_ended(open_jobs, in_time), "job") == []
    assert rows(never_ended(open_jobs, too_late), "job", "seqs") == [("late", [1, 1])]
