"""Sections about load, over the tables of small ledgers: by DuckDB, so no Spark is needed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.pipeline.records import NOON, History, export

from dragoman.pipeline.embedded.queries import DuckQueries
from dragoman.pipeline.embedded.run import run_embedded
from dragoman.pipeline.queries import Rows
from dragoman.pipeline.report_load import (
    QueueForecast,
    comparison,
    forecast,
    look_back,
    service_map,
    worker_lanes,
)
from dragoman.pipeline.report_parts import Select


@contextmanager
def tables(folder: Path, history: History) -> Iterator[Select]:
    source = export(folder / "export", history.records)
    run_embedded(source, str(folder / "tables"))
    with DuckQueries(str(folder / "tables")) as found:

        def select(select: str, name: str, where: str = "true", more: str = "") -> Rows:
            return found.rows(f"select {select} from {name} where {where} {more}")

        yield select


def cells(body: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(<td>.*?)</tr>", body)
    return [[re.sub("<.*?>", "", cell) for cell in re.findall("<td>(.*?)</td>", r)] for r in rows]


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


def test_a_forecast_looks_back_a_quarter_of_the_period_a_minute_or_an_hour() -> None:
    assert [look_back(0, over) for over in (8, 2_000, 86_400)] == [60, 500, 3_600]


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
    with tables(tmp_path, history) as select:
        section = forecast(select, over - 40, over)
    # 9 came and one left in the last minute; 8 wait.
    assert cells(section.body) == [["math", "8", "9", "1", "grows by 8 a minute"]]
    assert "in the last 60 s" in section.note


def test_the_newest_half_is_compared_with_the_one_before(tmp_path: Path) -> None:
    history = History()
    history.join("w1")
    for n in range(4):
        job = history.submit(f"j{n}", after=7)
        history.dispatch(job)
        history.end(job, after=1 if n < 2 else 3, state="succeeded" if n < 3 else "failed")
    # Ends at 10, 19, 30 and 41 s.
    begun, over = NOON + 1, NOON + 1 + 41
    with tables(tmp_path, history) as select:
        halves = comparison(select, begun, over)
        hours = comparison(select, begun, over, 12 / 3600)
    expected = ["math", "2 → 2 (+0%)", "0.0% → 50.0%", "2 s → 4 s (+100%)", "2 s → 4 s (+100%)"]
    assert cells(halves.body) == [expected]
    assert cells(hours.body)[0][1] == "1 → 2 (+100%)"


def test_a_service_that_is_new_has_nothing_to_compare_with(tmp_path: Path) -> None:
    history = History()
    job = history.submit("j", after=50)
    history.dispatch(job)
    history.end(job)
    with tables(tmp_path, history) as select:
        section = comparison(select, NOON, history.now)
    assert cells(section.body)[0][1:4] == ["0 → 1", "0.0% → 0.0%", "none → 2 s"]


def test_the_map_names_dialects_and_services_also_of_a_job_without_a_worker(tmp_path: Path) -> None:
    history = History()
    history.join("w1")
    history.dispatch(history.submit("a"))
    history.submit("b")
    with tables(tmp_path, history) as select:
        body = service_map(select).body
    assert "nfp to math to zss: 1" in body
    assert "nfp to math to no worker: 1" in body


def test_assignments_of_one_time_are_drawn_beside_each_other(tmp_path: Path) -> None:
    history = History()
    history.join("w1")
    first, second = history.submit("a"), history.submit("b")
    history.dispatch(first)
    history.dispatch(second)
    history.end(first)
    with tables(tmp_path, history) as select:
        section = worker_lanes(select, history.now)
    assert "a: math, succeeded, 2 s" in section.body
    assert "b: math, running, 1 s" in section.body
    assert len(set(re.findall(r'<rect [^>]* y="([\d.]+)"', section.body))) == 2


def test_a_ledger_without_work_has_sections_with_words(tmp_path: Path) -> None:
    history = History()
    history.join("w1")
    with tables(tmp_path, history) as select:
        assert "None." in worker_lanes(select, history.now).body
        assert "No job" in forecast(select, NOON, history.now).body
        assert cells(comparison(select, NOON, history.now).body) == []
