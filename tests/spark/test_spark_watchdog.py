"""Cancelled and overdue work really stops on Spark, and progress is reported."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.interop.harness import until

from dragoman.spark.watchdog import DeadlineExceeded, Stopped, Watchdog, counts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

#: Hours of work in two tasks, which no stage boundary interrupts.
ENDLESS = "select count(*) from range(0, 100000000000000, 1, 2) where sqrt(id) % 7 = 8"


class Job:
    """A job's context, as far as the watchdog needs one."""

    id = "job-1"
    timeout: float | None = None

    def __init__(self) -> None:
        self.is_cancelled = False
        self.events: list[Any] = []
        self.reported = threading.Event()

    def progress(self, event: Any) -> None:
        self.events.append(event)
        self.reported.set()


@pytest.fixture
def watchdog(spark: SparkSession) -> Iterator[Watchdog]:
    running = Watchdog(spark.sparkContext, seconds=60.0)
    yield running
    running.close()


def is_idle(spark: SparkSession) -> bool:
    return not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_a_cancel_stops_the_jobs_of_its_group_and_no_others(
    spark: SparkSession, watchdog: Watchdog
) -> None:
    job, seen = Job(), threading.Event()
    errors: list[Exception] = []

    def work() -> None:
        try:
            with watchdog.watch(job, "endless"):
                seen.set()
                spark.sql(ENDLESS).toArrow()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: not is_idle(spark), "the query runs", at_most=60)
    job.is_cancelled = True
    thread.join(60)
    assert not thread.is_alive()
    until(lambda: is_idle(spark), "Spark has stopped", at_most=30)
    assert len(errors) == 1
    assert not isinstance(errors[0], DeadlineExceeded)
    with watchdog.watch(Job(), "short"):
        assert spark.range(10).count() == 10


def test_a_cancel_that_comes_before_the_first_job_stops_it_all_the_same(
    spark: SparkSession, watchdog: Watchdog
) -> None:
    job = Job()
    job.is_cancelled = True
    with pytest.raises(Exception, match=r"cancel|awaitResult"), watchdog.watch(job, "endless"):
        spark.sql(ENDLESS).toArrow()
    until(lambda: is_idle(spark), "Spark has stopped", at_most=30)


def test_work_that_takes_longer_than_its_job_may_is_stopped_and_says_so(
    spark: SparkSession, watchdog: Watchdog
) -> None:
    job = Job()
    job.timeout = 0.5
    with (
        pytest.raises(DeadlineExceeded, match=r"deadline of 0\.5 s"),
        watchdog.watch(job, "endless"),
    ):
        spark.sql(ENDLESS).toArrow()
    until(lambda: is_idle(spark), "Spark has stopped", at_most=30)


def test_the_workers_own_limit_counts_when_it_is_nearer(spark: SparkSession) -> None:
    watchdog = Watchdog(spark.sparkContext, seconds=0.3)
    job = Job()
    job.timeout = 3600.0
    with pytest.raises(DeadlineExceeded), watchdog.watch(job, "endless"):
        spark.sql(ENDLESS).toArrow()
    watchdog.close()


def test_progress_reports_tasks_and_step(spark: SparkSession, watchdog: Watchdog) -> None:
    job = Job()

    def work() -> None:
        with suppress(Exception), watchdog.watch(job, "endless") as watched:
            watched.step = "sums"
            spark.sql(ENDLESS).toArrow()

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: any(event.get("tasks") for event in job.events), "progress", at_most=60)
    job.is_cancelled = True
    thread.join(60)
    seen = [event for event in job.events if event.get("tasks")]
    assert seen[0]["step"] == "sums"
    assert seen[0]["done"] < seen[0]["tasks"]


def test_a_group_that_never_ran_has_no_tasks(spark: SparkSession) -> None:
    assert counts(spark.sparkContext, "nobody") == {"tasks": 0, "done": 0}


def test_a_step_that_begins_is_reported_unless_the_job_is_cancelled(watchdog: Watchdog) -> None:
    job = Job()
    with watchdog.watch(job, "steps") as watched:
        watched.begin("one")
        job.is_cancelled = True
        with pytest.raises(Stopped):
            watched.begin("two")
    assert job.events == [{"step": "one"}]
