"""Questions about the ledger, answered outside the loop's thread."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.entries import record

from dragoman.dialects.registry import body_codecs
from dragoman.ledger.base import Entry, LedgerError
from dragoman.ledger.search import search_jobs
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.search import HistoryFilter
from dragoman.server import ledger_queries
from dragoman.server.ledger_queries import LedgerQueries

REQUEST = Body("http", (b'{"task":"add","args":[1,2]}',))
RESULT = Body("http", (b'{"value":3}',))
FAULT = Body("http", (b'{"fault":{"code":"task_failed","message":"no"}}',))
STRANGE = Body("unheard-of", (b"\xff\x00",))


def with_queries(path: Path, use: Callable[[LedgerQueries], Any]) -> Any:
    async def run() -> Any:
        ledger = SqliteLedger(path)
        bodies = (REQUEST, RESULT, FAULT, STRANGE)
        kinds = ("submitted", "ended", "ended", "ended")
        await ledger.append(
            [
                Entry(record(seq, "j", kind=kind, nbytes=body.size, digest=body.digest()), body)
                for seq, (kind, body) in enumerate(zip(kinds, bodies, strict=True), 1)
            ]
        )
        queries = LedgerQueries(path, body_codecs())
        try:
            return await use(queries)
        finally:
            await queries.close()
            await ledger.close()

    return asyncio.run(run())


def test_a_body_is_shown_as_what_it_means(tmp_path: Path) -> None:
    async def contents(queries: LedgerQueries) -> list[dict[str, Any]]:
        found = []
        for each in await queries.history("j"):
            body = await queries.body(each)
            assert body is not None
            found.append(queries.content(each, body))
        return found

    request, result, fault, strange = with_queries(tmp_path / "l.db", contents)
    assert request["call"] == {"task": "add", "args": (1, 2), "kwargs": {}}
    assert result["value"] == 3
    assert fault["fault"] == {"code": "task_failed", "message": "no"}
    assert strange["raw"] == b"\xff\x00"


def test_searches_do_not_run_in_the_loops_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    search = search_jobs
    monkeypatch.setattr(
        ledger_queries,
        "search_jobs",
        lambda *args: threads.append(threading.current_thread()) or search(*args),  # type: ignore[func-returns-value]
    )
    page = with_queries(tmp_path / "l.db", lambda q: q.jobs(HistoryFilter(), 0, 5))
    assert [row["job"] for row in page.rows] == ["j"]
    assert threads[0] is not threading.main_thread()


def test_too_many_questions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_queries, "MOST_WAITING", 0)
    with pytest.raises(LedgerError, match="try again"):
        with_queries(tmp_path / "l.db", lambda q: q.records(HistoryFilter(), 0, 5))
