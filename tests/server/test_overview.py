"""The broker at a glance: one document, its series, open jobs, reports."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.server.memory_server import MemoryServer
from tests.server.test_broker_view import joined, see, submitted

from dragoman.core.events import ServiceLimited
from dragoman.core.queue_control import service_limited
from dragoman.dialects.registry import body_codecs
from dragoman.ledger.base import Entry
from dragoman.model.limit import Limit
from dragoman.model.names import ServiceName
from dragoman.model.record import Record
from dragoman.model.search import HistoryFilter
from dragoman.server.job_statistics import WINDOWS
from dragoman.server.ledger_queries import LedgerQueries
from dragoman.server.overview import Overview


@pytest.fixture
def overview(tmp_path: Path) -> Overview:
    server = MemoryServer()
    for event in (joined("nfp", "w", "math"), submitted("j1", "math"), submitted("j2", "none")):
        server.broker.handle(event, 100.0)
    queries = LedgerQueries(tmp_path / "none.db", body_codecs())
    return Overview(see(server), server.loop, queries, tmp_path)


def test_the_document_counts_what_is_open(overview: Overview) -> None:
    found = overview.document()
    assert (found["running"], found["queued"], found["services"]) == (1, 1, 2)
    assert found["workers"] == {"alive": 1}
    assert found["totals"]["jobs"] == 2
    assert found["ledger"]["disk_free"] > 0


def test_dashboards_share_one_document(overview: Overview) -> None:
    assert overview.document() is overview.document()


def test_the_series_is_the_last_hour(overview: Overview) -> None:
    series = overview.series()
    assert len(series["submitted"]) == len(series["p95"]) == WINDOWS


def test_the_series_keeps_the_levels_while_nothing_is_recorded(overview: Overview) -> None:
    now = time.time()
    came = Record(1, now - 100, "submitted", job="j3", service="none", client="nfp/c")
    overview.statistics.durable([Entry(came)])
    series = overview.series()
    assert (series["waiting"][0], series["waiting"][-1]) == (0, 2)
    assert series["running"][-1] == 1


def test_a_service_says_its_limits(overview: Overview) -> None:
    state = overview.view._state
    for event in (
        ServiceLimited(ServiceName("math"), Limit(concurrency=2)),
        ServiceLimited(ServiceName("math"), Limit(rate=5.0), "add"),
        ServiceLimited(ServiceName("mathematics"), Limit(rate=1.0), "add"),
    ):
        service_limited(state, event)
    assert overview.view.limits("math") == [
        {"task": "", "limit": "2 at a time"},
        {"task": "add", "limit": "5 a second"},
    ]


def test_a_broker_alone_has_no_nodes_and_no_neighbours(overview: Overview) -> None:
    found = asyncio.run(overview.cluster())
    assert found == {"own": None, "nodes": [], "mesh": {"broker": "", "neighbours": []}}
    assert overview.document()["cluster"] is None


def test_without_tables_a_range_says_why_there_is_none(overview: Overview) -> None:
    assert not overview.has_tables
    found = asyncio.run(overview.table_series(0.0, 0.0))
    assert "the pipeline has written no tables" in found["trouble"]


def test_open_jobs_are_found_in_memory(overview: Overview) -> None:
    def found(**wanted: Any) -> list[str]:
        page = asyncio.run(overview.find_jobs(HistoryFilter(**wanted), 0, 10))
        return [str(row["job"]) for row in page.rows]

    assert found(state="running") == ["j1"]
    assert found(state="queued") == ["j2"]
    assert found(state="running", dialect="nfp", text="J1") == ["j1"]
    assert found(state="running", dialect="zss") == []
    assert found(state="running", client="other") == []


def test_reports_are_the_pages_of_one_folder(overview: Overview, tmp_path: Path) -> None:
    assert overview.reports() == []
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "today.html").write_text("<p>all well")
    (tmp_path / "reports" / "notes.txt").write_text("no")
    assert [row["name"] for row in overview.reports()] == ["today.html"]
    assert overview.report("today.html") == b"<p>all well"
    assert overview.report("../registry.json") is None
