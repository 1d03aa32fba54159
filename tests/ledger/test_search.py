"""Searches of the history: newest first, filtered, a page at a time."""

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.ledger.entries import record

from dragoman.ledger import search
from dragoman.ledger.base import Entry
from dragoman.ledger.layout import connect
from dragoman.ledger.search import search_jobs, search_records
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.search import HistoryFilter

STATES = ("succeeded", "failed", "succeeded", "cancelled")


def job(number: int, first: int) -> list[Entry]:
    """Return the three records of a job."""
    about: dict[str, Any] = {
        "service": "math" if number % 2 else "mmi.service.broker",
        "task": f"task{number}",
        "client": f"{'nfp' if number % 3 else 'zss'}/c{number}",
        "submitted_at": float(first),
    }
    state = STATES[number % 4]
    fault = "task_failed" if state == "failed" else ""
    rows = [
        record(first, f"j{number}", kind="submitted", state="queued", **about),
        record(first + 1, f"j{number}", kind="dispatched", worker="w", attempt=1, **about),
        record(
            first + 2,
            f"j{number}",
            kind="ended",
            state=state,
            fault=fault,
            worker="w",
            peer="dcp/w" if number == 7 else "zss_backend/w",
            **about,
        ),
    ]
    return [Entry(each) for each in rows]


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    path = tmp_path / "ledger.db"

    async def write() -> None:
        ledger = SqliteLedger(path)
        entries = [entry for number in range(20) for entry in job(number, 1 + 3 * number)]
        entries += [*job(20, 61)[:2], Entry(record(63, "j21", kind="submitted", state="queued"))]
        await ledger.append(entries)
        await ledger.close()

    asyncio.run(write())
    return connect(path)


def names(rows: tuple[dict[str, Any], ...]) -> list[str]:
    return [row["job"] for row in rows]


def test_jobs_come_newest_first_with_their_state(connection: apsw.Connection) -> None:
    page = search_jobs(connection, HistoryFilter(), 0, 4)
    assert names(page.rows) == ["j21", "j20", "j19", "j18"]
    assert [row["state"] for row in page.rows] == ["queued", "running", "cancelled", "succeeded"]
    assert page.rows[1]["worker"] == "w"
    assert page.before == 55


def test_the_next_page_goes_on_where_the_last_one_ended(connection: apsw.Connection) -> None:
    found, before = [], 0
    while True:
        page = search_jobs(connection, HistoryFilter(), before, 5)
        found += names(page.rows)
        before = page.before
        if not before:
            break
    assert found == [f"j{number}" for number in reversed(range(22))]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (HistoryFilter(state="failed"), ["j17", "j13", "j9", "j5", "j1"]),
        (HistoryFilter(fault="task_failed", client="nfp/c17"), ["j17"]),
        (HistoryFilter(dialect="zss", state="failed"), ["j9"]),
        (HistoryFilter(worker_link="dcp"), ["j7"]),
        (HistoryFilter(text="TASK13"), ["j13"]),
        (HistoryFilter(task="task7"), ["j7"]),
        (HistoryFilter(since=1061.0), ["j21", "j20"]),
        (HistoryFilter(until=1004.0), ["j1", "j0"]),
        (HistoryFilter(without=("mmi.service.broker",), since=1055.0), ["j21", "j19"]),
        (HistoryFilter(text="'; DROP TABLE records; --"), []),
    ],
)
def test_a_filter_leaves_the_rest_out(
    connection: apsw.Connection, wanted: HistoryFilter, found: list[str]
) -> None:
    assert names(search_jobs(connection, wanted, 0, 50).rows) == found


def test_records_are_found_by_kind(connection: apsw.Connection) -> None:
    page = search_records(connection, HistoryFilter(kinds=("ended",)), 0, 3)
    assert [(row["kind"], row["job"]) for row in page.rows] == [
        ("ended", "j19"),
        ("ended", "j18"),
        ("ended", "j17"),
    ]


def test_a_search_looks_at_a_bounded_number_of_records_and_says_where_it_stopped(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "WINDOW", 10)
    monkeypatch.setattr(search, "LONGEST_SEARCH", 20)
    page = search_jobs(connection, HistoryFilter(task="task0"), 0, 5)
    assert (page.rows, page.before) == ((), 44)
    assert page.looked_back_to > 0
