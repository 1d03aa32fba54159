"""Sections about load, over the tables of small ledgers: by DuckDB, so no Spark is needed."""

import re
from pathlib import Path

from tests.pipeline.records import NOON, History
from tests.pipeline.selects import tables

from dragoman.pipeline.forecast import (
    LoadForecast,
    QueueForecast,
    ServiceForecast,
    service_forecasts,
)
from dragoman.pipeline.report_load import (
    capacity,
    comparison,
    forecast,
    service_map,
    worker_lanes,
)


def cells(body: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(<td>.*?)</tr>", body)
    return [[re.sub("<.*?>", "", cell) for cell in re.findall("<td>(.*?)</td>", r)] for r in rows]


def test_the_forecast_of_queues_is_a_table_of_words() -> None:
    queue = QueueForecast(8, 9, 1, 1.0)
    found = [ServiceForecast("math", queue, LoadForecast((0, 0, 0), 1.0, 0.0, 0, 0))]
    section = forecast(found, NOON)
    assert cells(section.body) == [["math", "8", "9", "1", "grows by 8 a minute"]]
    assert "in the last 60 s" in section.note
    assert cells(capacity(found, NOON).body) == []


def test_the_service_nearest_to_its_capacity_comes_first() -> None:
    queue = QueueForecast(0, 0, 0, 1.0)
    found = [
        ServiceForecast("calm", queue, LoadForecast((5, 5, 5), 10.0, 1.0, 2, 4)),
        ServiceForecast("full", queue, LoadForecast((5, 5, 5), 10.0, 2.0, 1, 1)),
    ]
    section = capacity(found, NOON)
    assert cells(section.body) == [
        ["full", "2 s", "1", "1", "1", "is at capacity"],
        ["calm", "1 s", "0.5", "2", "4", "stays about as it is"],
    ]
    assert "3 parts of 10 s" in section.note
    # Neither has a queue that is worth a line.
    assert cells(forecast(found, NOON).body) == []


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
        none = service_forecasts(select, NOON, history.now)
        assert "No job" in forecast(none, history.now).body
        assert "No job" in capacity(none, history.now).body
        assert cells(comparison(select, NOON, history.now).body) == []
