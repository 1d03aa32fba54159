"""The broker at a glance, for dashboards and metrics: one document, made at most once a second.

However many dashboards are open, they share the same document.
"""

import asyncio
import os
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar

from dragoman.core.view import WorkerRow
from dragoman.ledger.base import LedgerError
from dragoman.model.job import JobState
from dragoman.model.search import HistoryFilter, HistoryPage
from dragoman.server.broker_view import BrokerView, resident_bytes
from dragoman.server.histograms import Histogram, percentile
from dragoman.server.job_statistics import (
    STEP,
    WINDOWS,
    JobStatistics,
    ServiceTimes,
    StatisticsWindow,
)
from dragoman.server.ledger_queries import LedgerQueries
from dragoman.server.loop import Loop
from dragoman.server.loop_lag import LoopLag
from dragoman.server.table_series import TABLES_FOLDER, TableSeries

#: How long a document is fresh, in seconds.
FRESH: Final = 0.9
#: Shared answers that are kept.
MOST_SHARED: Final = 1000
#: Latencies are of the jobs that ended in the last so many seconds.
RECENT: Final = 300.0
#: Open jobs that one search looks at; they are in memory.
MOST_OPEN: Final = 2000
#: Reports that are listed.
MOST_REPORTS: Final = 200
REPORTS_FOLDER: Final = "reports"
DAY: Final = 86_400.0
#: The longest range of one chart, in seconds.
LONGEST_RANGE: Final = 732 * DAY
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


T = TypeVar("T")


class ReportRow(TypedDict):
    """A report of the pipeline: its file, when it was written, its size."""

    name: str
    at: float
    bytes: int


class Overview:
    """Collects the document, its series, and the history behind it."""

    def __init__(
        self,
        view: BrokerView,
        loop: Loop,
        queries: LedgerQueries,
        data: Path,
        *,
        tables: str = "",
        is_secured: bool = False,
    ) -> None:
        self.view = view
        self.statistics = JobStatistics()
        self.lag = LoopLag()
        self.queries = queries
        self.is_secured = is_secured
        #: Reads how far the ledger is exported; None while nothing is.
        self.sealed_seq: Callable[[], int | None] = lambda: None
        #: Returns the other brokers of the mesh, and asks the nodes of the cluster.
        self._mesh_rows: Callable[[], dict[str, object]] = lambda: {"broker": "", "neighbours": []}
        self._ask_nodes: Callable[[], Awaitable[list[dict[str, object]]]] | None = None
        self._tables = TableSeries(tables or str(data / TABLES_FOLDER))
        self._loop = loop
        self._data = data
        self._started_at = loop.clock.now()
        #: Answers that dashboards share, each with the instant until which it is fresh.
        self._shared: dict[Hashable, tuple[float, Any]] = {}
        self.statistics.restore(loop.broker.state.store.jobs.values())
        loop.listeners.append(self.statistics.durable)

    def follow(
        self,
        mesh_rows: Callable[[], dict[str, object]],
        ask_nodes: Callable[[], Awaitable[list[dict[str, object]]]] | None,
    ) -> None:
        """Show the brokers of a mesh, and the nodes of a cluster if there is one."""
        self._mesh_rows, self._ask_nodes = mesh_rows, ask_nodes

    # --- measurements ---------------------------------------------------------------------------

    def measured_times(self) -> Mapping[tuple[str, str], ServiceTimes]:
        """Return the times of jobs by service and dialect."""
        return self.statistics.times

    def measured_counts(self) -> dict[str, Mapping[Any, int]]:
        """Return the counts of faults, bridges and denials."""
        statistics = self.statistics
        return {
            "faults": statistics.faults,
            "bridge_jobs": statistics.bridges,
            "denied": {(): statistics.denied},
        }

    def measured_process(self) -> dict[str, Histogram]:
        """Return the histograms of the ledger's appends and of the loop."""
        loop = self._loop
        return {"append": loop.append_times, "batch": loop.append_sizes, "lag": self.lag.seconds}

    # --- the document ---------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the document; it may be as old as `FRESH`."""
        return self._share("document", FRESH, self._make)

    def _share(self, key: Hashable, fresh: float, make: Callable[[], T]) -> T:
        """Return an answer that was made lately, or make one for everybody who asks next."""
        now = time.monotonic()
        until, found = self._shared.get(key, (0.0, None))
        if now > until:
            if len(self._shared) >= MOST_SHARED:
                self._shared.clear()
            found = make()
            self._shared[key] = (now + fresh, found)
        made: T = found
        return made

    def _make(self) -> dict[str, Any]:
        now = self._loop.clock.now()
        totals = self.view.totals()
        services = self.services()
        workers = Counter(row.status for row in self.workers())
        counts = self.statistics.latency(now, RECENT)
        oldest = [row["oldest_age"] for row in services]
        return {
            "at": now,
            "started_at": self._started_at,
            "version": version("dragoman"),
            "secured": self.is_secured,
            "totals": asdict(totals),
            "queued": sum(row["queued"] for row in services),
            "running": sum(row["running"] for row in services),
            "oldest_age": max(oldest, default=0.0),
            "workers": dict(workers),
            "services": len(services),
            "clients": len(self.view.clients()),
            "latency": {n: percentile(counts, share) for n, share in _SHARES.items()},
            "faults": dict(self.statistics.faults.most_common(10)),
            "links": self._links(),
            "cluster": self._cluster(),
            "ledger": self.ledger(),
            "loop_lag": round(self.lag.last, 4),
            "memory": resident_bytes(),
            "cpu_seconds": round(time.process_time(), 2),
            "now": _point(self._current(now)),
            "dead": self.view.dead_letters(),
            "troubles": [{"part": t.part, "reason": t.reason} for t in self.view.troubles()],
        }

    def services(self) -> list[dict[str, Any]]:
        """Return the services, with the age of the oldest job that waits."""
        return self._share("services", FRESH, self._services)

    def workers(self) -> list[WorkerRow]:
        """Return the workers; the rows may be as old as `FRESH`."""
        return self._share("workers", FRESH, self.view.workers)

    def _services(self) -> list[dict[str, Any]]:
        now, found = self._loop.clock.now(), []
        for row in self.view.services():
            came = self.statistics.oldest_waiting(row.name)
            age = {"oldest_age": max(0.0, now - came) if came else 0.0}
            found.append(asdict(row) | age | {"limits": self.view.limits(row.name)})
        return found

    def hidden_services(self) -> list[str]:
        """Return the built-in services, which lists leave out."""
        return sorted(self.view.builtin_only())

    def _cluster(self) -> dict[str, object] | None:
        """Return this node and its cluster; None: the broker is alone."""
        row = self.view.cluster()
        return None if row is None else asdict(row) | {"has_quorum": row.state.has_quorum}

    def _links(self) -> list[dict[str, object]]:
        return [
            {
                "name": link.listener,
                "endpoint": link.endpoint,
                "received": link.received,
                "sent": link.sent,
                "refused": sum(link.refused.values()),
                "errors": link.internal_errors,
            }
            for link in self.view.links()
            if link.name != "local"
        ]

    def ledger(self) -> dict[str, int | None]:
        """Return the size of the ledger, its range, and the space on its disk."""
        ledger, sealed = self._loop.ledger, self.sealed_seq()
        free, total = _space(self._data)
        return {
            "bytes": _size(self._data / "ledger.sqlite") + _size(self._data / "ledger.sqlite-wal"),
            "first_seq": ledger.first_seq,
            "last_seq": ledger.last_seq,
            "unexported": None if sealed is None else max(0, ledger.last_seq - sealed),
            "disk_free": free,
            "disk_total": total,
        }

    # --- series ---------------------------------------------------------------------------------

    def _current(self, now: float) -> StatisticsWindow:
        """Return the last complete window, or an empty one."""
        start = now - now % STEP - STEP
        found = [w for w in self.statistics.since(start) if w.start == start]
        return found[0] if found else StatisticsWindow(start)

    def series(self) -> dict[str, Any]:
        """Return the last hour, in steps of a few seconds."""
        return self._share("series", STEP / 2, self._series)

    def _series(self) -> dict[str, Any]:
        now = self._loop.clock.now()
        first = now - now % STEP - (WINDOWS - 1) * STEP
        known = {window.start: window for window in self.statistics.windows}
        starts = [first + i * STEP for i in range(WINDOWS)]
        points, last = [], StatisticsWindow(first)
        for start in starts:
            # Without a record nothing changes: the levels stay.
            last = known.get(start) or StatisticsWindow(start, last.waiting, last.running)
            points.append(_point(last))
        names = [name for name in points[0] if name != "at"]
        return {
            "step": STEP,
            "from": first,
            **{name: [point[name] for point in points] for name in names},
        }

    async def table_series(self, since: float, until: float) -> dict[str, Any]:
        """Return a range from the pipeline's tables; 0: until now, a day. Same ranges share."""
        now = self._loop.clock.now()
        until = min(until or now, now) // STEP * STEP
        since = max(min(since or until - DAY, until - STEP), until - LONGEST_RANGE) // STEP * STEP
        key = ("tables", since, until)
        read = partial(asyncio.to_thread, self._tables.read, since, until)
        found = self._share(key, STEP, lambda: asyncio.ensure_future(read()))
        return await asyncio.shield(found)

    @property
    def has_tables(self) -> bool:
        """Whether the pipeline has written tables."""
        return self._tables.is_there

    async def cluster(self) -> dict[str, object]:
        """Return the nodes of the cluster, as each answers, and the brokers of the mesh."""
        node = self.view.cluster()
        nodes = await self._ask_nodes() if self._ask_nodes is not None else []
        own = asdict(node) if node is not None else None
        return {"own": own, "nodes": nodes, "mesh": self._mesh_rows()}

    def bridges(self) -> list[dict[str, object]]:
        """Return the ended jobs by the dialects of client and worker."""
        found: dict[tuple[str, str], Counter[str]] = {}
        for (client, worker, state), count in self.statistics.bridges.items():
            found.setdefault((client, worker), Counter())[state] += count
        return [
            {"client": client, "worker": worker, **counts}
            for (client, worker), counts in sorted(found.items())
        ]

    # --- history --------------------------------------------------------------------------------

    async def find_jobs(self, wanted: HistoryFilter, before: int, limit: int) -> HistoryPage:
        """Search jobs: open ones in memory, all others in the ledger. Same searches share."""
        key = ("jobs", wanted, before, limit)
        find = partial(self._find_jobs, wanted, before, limit)
        found = self._share(key, FRESH, lambda: asyncio.ensure_future(find()))
        # A caller that leaves must not cancel the search of the others.
        return await asyncio.shield(found)

    async def _find_jobs(self, wanted: HistoryFilter, before: int, limit: int) -> HistoryPage:
        if wanted.state in (JobState.QUEUED, JobState.RUNNING):
            rows = self.view.jobs(JobState(wanted.state), MOST_OPEN, wanted.service)
            found = [_open_job(row) for row in rows]
            return HistoryPage(tuple(r for r in found if _is_wanted(r, wanted))[:limit], 0, 0.0)
        return await self.queries.jobs(wanted, before, limit)

    def reports(self) -> list[ReportRow]:
        """Return the HTML reports in the folder of reports, newest first."""
        folder = self._data / REPORTS_FOLDER
        try:
            files = [each for each in folder.iterdir() if each.suffix == ".html" and each.is_file()]
        except OSError:
            return []
        rows: list[ReportRow] = [
            {"name": f.name, "at": f.stat().st_mtime, "bytes": f.stat().st_size} for f in files
        ]
        return sorted(rows, key=lambda row: row["at"], reverse=True)[:MOST_REPORTS]

    def report(self, name: str) -> bytes | None:
        """Return one report; None if there is none of this name."""
        if name not in {row["name"] for row in self.reports()}:
            return None
        try:
            return (self._data / REPORTS_FOLDER / name).read_bytes()
        except OSError as error:
            raise LedgerError(f"cannot read the report {name}: {error.strerror}") from None


def _point(window: StatisticsWindow) -> dict[str, float]:
    return {
        "at": window.start,
        "submitted": window.submitted,
        "succeeded": window.succeeded,
        "failed": window.failed,
        "refused": window.refused,
        "waiting": window.waiting,
        "running": window.running,
        "p50": round(percentile(window.counts, 0.5), 4),
        "p95": round(percentile(window.counts, 0.95), 4),
    }


def _open_job(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("job", "state", "service", "task", "client", "fault")},
        "principal": row.get("principal", ""),
        "worker": ", ".join(row["workers"]),
        "attempts": row["attempts"],
        "submitted_at": row["submitted_at"],
        "at": row["submitted_at"],
        "ended_at": 0.0,
        "detail": row["detail"],
    }


def _is_wanted(row: Mapping[str, Any], wanted: HistoryFilter) -> bool:
    text = " ".join(str(row[n]) for n in ("job", "task", "client", "worker", "detail")).lower()
    return (
        wanted.client in row["client"]
        and wanted.worker in row["worker"]
        and wanted.task in ("", row["task"])
        and wanted.principal in ("", row["principal"])
        and (not wanted.dialect or row["client"].startswith(f"{wanted.dialect}/"))
        and wanted.text.lower() in text
        and (not wanted.since or row["submitted_at"] >= wanted.since)
        and (not wanted.until or row["submitted_at"] <= wanted.until)
    )


def _space(folder: Path) -> tuple[int, int]:
    """Return free and total bytes of a folder's disk; zeros if the folder is gone."""
    try:
        found = shutil.disk_usage(folder)
    except OSError:
        # Health says that the folder is gone; the page and the metrics must go on to show it.
        return 0, 0
    return found.free, found.total


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
