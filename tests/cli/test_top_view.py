"""The terminal view, driven by keys, and once as people see it: in a terminal of 80 x 24."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.caller import Caller, until
from textual.widgets import DataTable, Static

from dragoman import Worker
from dragoman.cli.top.source import TopSource
from dragoman.cli.top.view import COLUMNS, Detail, TopApp, figures, story
from dragoman.sdk.credentials import NONE
from dragoman.testing.harness import LocalBroker

OVERVIEW: dict[str, Any] = {
    "version": "1",
    "at": 100.0,
    "started_at": 40.0,
    "totals": {"succeeded": 7, "failed": 2, "dead": 1},
    "latency": {"p50": 0.01, "p95": 0.5, "p99": 2.0},
    "workers": {"alive": 3},
    "running": 4,
    "queued": 5,
    "loop_lag": 0.0,
    "now": {"submitted": 25},
    "series": {"submitted": [1, 2, 3]},
}


def test_the_figures_fit_a_narrow_terminal() -> None:
    lines = figures(OVERVIEW).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) < 80
    assert "2.5 jobs/s" in lines[0]


def test_a_story_has_the_reason_and_every_record() -> None:
    why = {"reason": "failed", "words": "no route"}
    records = [{"at": 1.0, "kind": "submitted"}, {"at": 2.0, "kind": "ended", "fault": "x"}]
    text = story("j1", why, records)
    assert "failed: no route" in text
    assert "submitted" in text
    assert "ended" in text


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http", ledger={"seal": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def caller(broker: LocalBroker) -> Iterator[Caller]:
    worker = Worker(broker.url("nfp"), service="math", name="w1", own_process_beats=False)

    @worker.task
    def add(x: int, y: int) -> int:
        return x + y

    with worker:
        caller = Caller(broker.endpoints["http"])
        caller.post("/v1/call", {"service": "math", "task": "add", "args": [1, 2]})
        yield caller


async def until_rows(pilot: Any, app: TopApp, name: str) -> None:
    """Wait until the table of a view is drawn."""
    heading = COLUMNS[name][0][0]
    async with asyncio.timeout(20):
        while True:
            table = app.query_one(DataTable)
            if table.row_count and str(next(iter(table.columns.values())).label) == heading:
                return
            await pilot.pause(0.05)


@pytest.mark.interop
def test_keys_choose_tables_open_a_job_and_cancel_one(broker: LocalBroker, caller: Caller) -> None:
    waiting = caller.post("/v1/jobs", {"service": "nobody", "task": "x"}).json["job"]

    async def drive() -> None:
        app = TopApp(TopSource(broker.endpoints["http"], NONE))
        async with app.run_test(size=(80, 24)) as pilot:
            await until_rows(pilot, app, "services")
            await pilot.press("w")
            await until_rows(pilot, app, "workers")
            await pilot.press("j")
            await until_rows(pilot, app, "jobs")
            await pilot.press("y")
            async with asyncio.timeout(20):
                while not isinstance(app.screen, Detail):
                    await pilot.pause(0.05)
            assert "no_service" in str(app.screen.query_one("#detail", Static).render())
            await pilot.press("escape")
            await pilot.press("c", "c")
            await asyncio.to_thread(
                until,
                lambda: caller.get(f"/v1/jobs/{waiting}").json["state"] == "cancelled",
                "the cancel",
            )

    asyncio.run(drive())


@pytest.mark.interop
@pytest.mark.skipif(not shutil.which("tmux"), reason="as root: apt-get install -y tmux")
def test_it_works_in_a_terminal_of_80_by_24(
    broker: LocalBroker, caller: Caller, tmp_path: Path
) -> None:
    tmux = ["tmux", "-S", str(tmp_path / "socket")]
    program = "from dragoman.cli.main import main; main()"
    command = f"{sys.executable} -c '{program}' top --url {broker.endpoints['http']}"

    def screen() -> str:
        done = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True)
        return done.stdout

    subprocess.run([*tmux, "new-session", "-d", "-x", "80", "-y", "24", command], check=True)
    try:
        until(lambda: "math" in screen(), "the table of services", 40.0)
        subprocess.run([*tmux, "send-keys", "w"], check=True)
        until(lambda: "w1" in screen(), "the table of workers", 40.0)
        subprocess.run([*tmux, "send-keys", "q"], check=True)
        until(lambda: not screen(), "the end", 40.0)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True)
