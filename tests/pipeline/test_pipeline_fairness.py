import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, folded, rows

from dragoman.pipeline.fairness import suspects, unfair
from dragoman.pipeline.jobs import jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
MOST = 3


def waited(turns: int, own_turn_after: int | None = None, target: str = "any") -> History:
    """One client waits while another is served; optionally another job of it is dispatched."""
    history = History()
    first = history.submit("waits", target=target)
    other = history.submit("own") if own_turn_after is not None else None
    for n in range(turns):
        job = history.submit(f"loud-{n}", client="nfp/bert")
        history.dispatch(job)
        history.end(job)
        if n + 1 == own_turn_after and other is not None:
            history.dispatch(other)
    history.dispatch(first)
    history.end(first)
    return history


def found(spark: SparkSession, history: History) -> list[tuple[object, ...]]:
    ended = jobs(folded(spark, history)).where("day is not null")
    return rows(unfair(suspects(ended, MOST), history.frame(spark), MOST), "job", "turns")


def test_too_many_turns_of_others_are_unfair(spark: SparkSession) -> None:
    assert found(spark, waited(MOST + 1)) == [("waits", MOST + 1)]


def test_as_many_turns_as_the_bound_allows_are_fair(spark: SparkSession) -> None:
    assert found(spark, waited(MOST)) == []


def test_a_turn_of_its_own_client_starts_the_count_anew(spark: SparkSession) -> None:
    assert found(spark, waited(MOST + 2, own_turn_after=2)) == []
    assert found(spark, waited(MOST + 2, own_turn_after=1)) == [("waits", MOST + 1)]


def test_a_job_for_a_named_worker_may_wait(spark: SparkSession) -> None:
    assert found(spark, waited(MOST + 5, target="w9")) == []
