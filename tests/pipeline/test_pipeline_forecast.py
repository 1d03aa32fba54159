"""Forecasts of queues and loads, against cases that were computed by hand."""

from pathlib import Path

import pytest
from tests.pipeline.records import NOON, History
from tests.pipeline.selects import select_from
from tests.pipeline.selects import tables as tables_of

from dragoman.pipeline.embedded.queries import DuckQueries
from dragoman.pipeline.forecast import (
    LoadForecast,
    QueueForecast,
    ServiceForecast,
    look_back,
    parts_of,
    service_forecasts,
)
from dragoman.pipeline.queries import SparkQueries
from dragoman.pipeline.store import TableStore

DAY = 86_400


@pytest.mark.parametrize(
    ("waiting", "arrived", "left", "words"),
    [
        (0, 10, 10, "is empty"),
        (90, 0, 60, "empties at 05 Jan 12:15 (in 15 min)"),
        (90, 600, 1_200, "empties at 05 Jan 12:01 (in 90 s)"),
        (5, 600, 0, "grows by 60 a minute"),
        (5, 189, 188, "stays about as it is"),
        (5, 0, 0, "stays about as it is"),
    ],
)
def test_a_queue_empties_if_more_leaves_than_comes(
    waiting: int, arrived: int, left: int, words: str
) -> None:
    assert QueueForecast(waiting, arrived, left, 10.0).words(NOON) == words


def test_a_queue_is_judged_by_a_quarter_of_the_period_a_minute_or_an_hour() -> None:
    assert [look_back(0, over) for over in (8, 2_000, 86_400)] == [60, 500, 3_600]


def test_a_period_has_twelve_parts_or_one_for_each_day() -> None:
    assert parts_of(0, 120) == (12, 10)
    assert parts_of(0, 3.5 * DAY) == (12, 3.5 * DAY / 12)
    assert parts_of(0, 4.5 * DAY) == (4, DAY)
    assert parts_of(0, 90 * DAY) == (28, DAY)


def test_a_load_that_grows_reaches_the_capacity_where_its_line_does() -> None:
    # 6, 12, 18, 24 jobs a minute of 10 s each: 1, 2, 3, 4 places; 4.5 at the end, one a minute.
    load = LoadForecast((6, 12, 18, 24), 60.0, 10.0, 3, 6)
    assert [*load.loads] == [1, 2, 3, 4]
    assert (load.slope * 60, load.level) == pytest.approx((1, 4.5))
    assert load.seconds_to_capacity == pytest.approx(90)
    assert load.words(NOON) == "reaches capacity at 05 Jan 12:01 (in 90 s)"
    assert not load.is_good


@pytest.mark.parametrize(
    ("arrived", "places", "words", "is_good"),
    [
        # Ahead of 4.5 by 4.5 places, which takes 270 s: longer than the 240 s looked back.
        ((6, 12, 18, 24), 9, "grows, not to capacity within 4 min", True),
        ((6, 12, 18, 24), 4, "is at capacity", False),
        ((24, 18, 12, 6), 5, "falls", True),
        # The slope is 0.4 places a minute, its standard error 0.57: within two of them.
        ((6, 18, 6, 18), 9, "stays about as it is", True),
        ((6, 6, 6, 6), 0, "no worker is connected", False),
        ((0, 0, 0, 0), 0, "no work", True),
    ],
)
def test_a_load_is_put_into_words(
    arrived: tuple[int, ...], places: int, words: str, is_good: bool
) -> None:
    load = LoadForecast(arrived, 60.0, 10.0, places, places)
    assert (load.words(NOON), load.is_good) == (words, is_good)


def test_a_forecast_counts_what_waits_comes_and_leaves(tmp_path: Path) -> None:
    history = History()
    history.join("w1")
    old = history.submit("old")
    history.dispatch(old)
    history.end(old, after=600)
    for n in range(9):
        history.submit(f"j{n}")
    history.dispatch(history.records[-1])
    over = history.now
    with tables_of(tmp_path, history) as select:
        (found,) = service_forecasts(select, over - 40, over)
    # 9 came and one left in the last minute; 8 wait.
    assert found.queue == QueueForecast(8, 9, 1, 1.0)


def test_a_load_counts_arrivals_work_and_the_places_that_workers_have_shown(
    tmp_path: Path,
) -> None:
    history = History()
    history.join("w1")
    history.join("idle")
    history.join("gone")
    history.leave("gone")
    begun = history.now
    first, second = history.submit("a", after=0), history.submit("b")
    history.dispatch(first)
    history.dispatch(second)
    history.requeue(second, "w1", 1, "handed_back")
    history.dispatch(second, attempt=2)
    history.end(second, attempt=2, after=3)
    history.end(first)
    third = history.submit("c", after=108)
    history.dispatch(third)
    with tables_of(tmp_path, history) as select:
        (found,) = service_forecasts(select, begun, begun + 120)
    # `a` ran 7 s, `b` 1 s and 3 s: 11 s of work for two jobs. `w1` ran two jobs at one time.
    assert found.load == LoadForecast((2, *[0] * 10, 1), 10.0, 5.5, 2, 3)


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_both_engines_forecast_the_same(tables: TableStore) -> None:
    horizon = tables.snapshot.horizon
    assert horizon is not None
    over = horizon.timestamp()

    def forecasts(found: DuckQueries | SparkQueries) -> list[ServiceForecast]:
        return service_forecasts(select_from(found), over - 90, over)

    by_spark = forecasts(SparkQueries(tables))
    with DuckQueries(tables.root) as found:
        assert forecasts(found) == by_spark
    assert any(one.load.places for one in by_spark)
    assert any(one.load.work for one in by_spark)
