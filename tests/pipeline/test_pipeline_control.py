from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import NOON, History, rows

from dragoman.model.record import Kind
from dragoman.pipeline.control import (
    LEFT_DAYS,
    boundaries,
    bounds,
    carried_over,
    control,
    recent,
    spans,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]
SOON = datetime.fromtimestamp(NOON + 60, UTC)


def test_spans_give_the_state_of_a_worker_at_any_record(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    history.resync("w1")
    history.leave("w1")
    history.join("w1")
    found = spans(control(history.frame(spark)))
    forever = 2**62
    assert rows(found, "said_seq", "next_seq", "said", "session") == [
        (1, 2, "joined", 1),
        (2, 3, "resynced", 1),
        (3, 4, "left", None),
        (4, forever, "joined", 4),
    ]


def test_only_open_sessions_and_the_last_leaves_are_carried(spark: SparkSession) -> None:
    history = History()
    history.add(Kind.STARTED)
    history.join("w1")
    history.own("w1", "a")
    history.leave("w1")
    history.join("w1")
    history.own("w1", "b")
    history.join("w2")
    history.leave("w2")
    history.submit()
    found = control(history.frame(spark))
    assert rows(carried_over(found, SOON), "seq") == [(1,), (5,), (6,), (8,)]
    assert rows(boundaries(found), "seq") == [(1,)]
    again = carried_over(carried_over(found, SOON), SOON)
    assert rows(again, "seq") == [(1,), (5,), (6,), (8,)]
    later = SOON + timedelta(days=LEFT_DAYS)
    assert rows(carried_over(found, later), "seq") == [(1,), (5,), (6,)]


def test_one_pass_finds_the_boundaries_and_the_oldest_session(spark: SparkSession) -> None:
    history = History()
    history.add(Kind.STARTED)
    history.join("w1")
    history.join("w2")
    history.add(Kind.STOPPED)
    found = bounds(control(history.frame(spark)))
    assert (found.marks, found.oldest) == ([1, 4], datetime.fromtimestamp(NOON + 2, UTC))
    nothing = control(history.frame(spark)).where("false")
    assert bounds(nothing) == ([], None)


def test_of_old_restarts_only_the_last_is_looked_at() -> None:
    restarts = [*range(1, 1_000)]
    assert recent(restarts, 997) == [997, 998, 999]
    assert recent([5], 0) == [5]
    assert recent([], 7) == []
