"""Statistics of jobs: what the records of a few jobs add up to."""

from typing import Any

from dragoman.ledger.base import Entry
from dragoman.model.record import Kind, Record
from dragoman.server.job_statistics import MOST_SERVICES, OTHER, WINDOWS, JobStatistics


def tell(statistics: JobStatistics, at: float, kind: Kind, job: str, **more: Any) -> None:
    fields: dict[str, Any] = {"service": "math", "client": "nfp/c", "submitted_at": 100.0}
    statistics.durable([Entry(Record(1, at, kind, job, **(fields | more)))])


def run(statistics: JobStatistics, job: str, state: str = "succeeded", **more: Any) -> None:
    tell(statistics, 100.0, Kind.SUBMITTED, job, **more)
    tell(statistics, 101.0, Kind.DISPATCHED, job, **more)
    tell(statistics, 103.0, Kind.ENDED, job, state=state, peer="zss/w", **more)


def test_a_job_is_timed_in_the_queue_at_work_and_in_all() -> None:
    statistics = JobStatistics()
    run(statistics, "j")
    times = statistics.times["math", "nfp"]
    assert (times.queue.total, times.run.total, times.total.total) == (1.0, 2.0, 3.0)
    assert times.attempts == 1
    assert next(iter(times.total.exemplars.values())).job == "j"


def test_the_oldest_waiting_job_is_known_until_it_is_dispatched() -> None:
    statistics = JobStatistics()
    tell(statistics, 100.0, Kind.SUBMITTED, "a")
    tell(statistics, 105.0, Kind.SUBMITTED, "b")
    assert statistics.oldest_waiting("math") == 100.0
    tell(statistics, 106.0, Kind.DISPATCHED, "a")
    assert statistics.oldest_waiting("math") == 105.0
    tell(statistics, 107.0, Kind.ENDED, "b", state="cancelled")
    assert statistics.oldest_waiting("math") == 0.0


def test_ended_jobs_are_counted_by_bridge_window_and_fault() -> None:
    statistics = JobStatistics()
    run(statistics, "a")
    run(statistics, "b", "failed", fault="task_failed")
    assert statistics.bridges == {("nfp", "zss", "succeeded"): 1, ("nfp", "zss", "failed"): 1}
    assert statistics.faults == {"task_failed": 1}
    [window] = statistics.since(90.0)
    assert (window.submitted, window.succeeded, window.failed) == (2, 1, 1)
    assert sum(statistics.latency(110.0, 60.0)) == 2


def test_jobs_of_the_broker_itself_are_left_out() -> None:
    statistics = JobStatistics()
    run(statistics, "a", client="local/house")
    run(statistics, "b", service="mmi.service.broker")
    assert not statistics.times
    assert not statistics.windows


def test_services_beyond_the_bound_share_one_series() -> None:
    statistics = JobStatistics()
    for number in range(MOST_SERVICES + 5):
        run(statistics, f"j{number}", service=f"s{number}")
    assert len(statistics.times) == MOST_SERVICES + 1
    assert statistics.times[OTHER, "nfp"].attempts == 5


def test_only_the_last_hour_is_kept() -> None:
    statistics = JobStatistics()
    for number in range(WINDOWS + 10):
        tell(statistics, 10.0 * number, Kind.SUBMITTED, f"j{number}")
    assert len(statistics.windows) == WINDOWS


def test_refusals_and_denials_are_counted() -> None:
    statistics = JobStatistics()
    tell(statistics, 100.0, Kind.REFUSED, "j", fault="queue_full")
    tell(statistics, 100.0, Kind.DENIED, "")
    assert (statistics.windows[0].refused, statistics.denied) == (1, 1)
