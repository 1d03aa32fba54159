"""Routes of the dashboard's data: the overview, searches of the history, records and bodies.

Reading a body is reading a job: the gate decides about it and records it, as for a result.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final, Protocol
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.effects import JobStatus
from dragoman.core.events import ResultRequested
from dragoman.core.view import WorkerRow
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record
from dragoman.model.search import LARGEST_PAGE, HistoryFilter, HistoryPage
from dragoman.web.client_channels import ClientChannels
from dragoman.web.event_streams import ServerSentStream, StreamResponse, encode
from dragoman.web.job_documents import answer, known
from dragoman.web.measurements import MeasuredBroker
from dragoman.web.problems import Problem, of_fault
from dragoman.web.request_reading import client_name, number, whole_number
from dragoman.web.view_routes import ViewRoutes, workers_page

_TEXTS: Final = (
    *("state", "service", "task", "client", "worker", "principal", "dialect", "worker_link"),
    "fault",
)
LONGEST_TEXT: Final = 300
#: Seconds between two documents of a live stream.
LIVE_EVERY: Final = 1.0
#: A report is a page of its own: it runs no script and reaches nothing.
_REPORT_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
)


class QuerySource(Protocol):
    """Reads the ledger outside the loop's thread."""

    async def records(self, wanted: HistoryFilter, before: int, limit: int) -> HistoryPage:
        """Search records."""
        ...

    async def history(self, job: str) -> list[Record]:
        """Return every record of a job."""
        ...

    async def body(self, record: Record) -> Body | None:
        """Return the body of a record."""
        ...

    def content(self, record: Record, body: Body) -> dict[str, object]:
        """Return a body as people read it."""
        ...


class OverviewSource(MeasuredBroker, Protocol):
    """The broker at a glance."""

    @property
    def queries(self) -> QuerySource:
        """The history."""
        ...

    def document(self) -> dict[str, object]:
        """Return the broker at a glance."""
        ...

    def series(self) -> dict[str, object]:
        """Return the last hour."""
        ...

    async def table_series(self, since: float, until: float) -> dict[str, object]:
        """Return a range of time from the pipeline's tables."""
        ...

    @property
    def has_tables(self) -> bool:
        """Whether the pipeline has written tables."""
        ...

    async def cluster(self) -> dict[str, object]:
        """Return the nodes of the cluster and the brokers of the mesh."""
        ...

    def services(self) -> list[dict[str, object]]:
        """Return the services."""
        ...

    def workers(self) -> Sequence[WorkerRow]:
        """Return the workers, from a moment ago."""
        ...

    def bridges(self) -> list[dict[str, object]]:
        """Return the ended jobs by the dialects of client and worker."""
        ...

    def hidden_services(self) -> Sequence[str]:
        """Return the built-in services, which lists leave out."""
        ...

    async def find_jobs(self, wanted: HistoryFilter, before: int, limit: int) -> HistoryPage:
        """Search jobs."""
        ...

    def reports(self) -> Sequence[Mapping[str, object]]:
        """Return the reports."""
        ...

    def report(self, name: str) -> bytes | None:
        """Return one report."""
        ...


class LiveStream(ServerSentStream):
    """One dashboard that is open. A slow one misses documents, never the newest."""

    def __init__(self, live: "LiveStreams") -> None:
        super().__init__()
        self._live = live

    def offer(self, data: bytes) -> None:
        """Replace an unread document by a newer one."""
        self.waiting.clear()
        self.put(data)

    def close(self) -> None:
        """Leave."""
        self._live.streams.discard(self)


class LiveStreams:
    """Sends the same document to all open dashboards, once a second, while there are any."""

    def __init__(self) -> None:
        self.streams: set[LiveStream] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, source: OverviewSource) -> LiveStream:
        """Open a stream; its first document comes at once."""
        stream = LiveStream(self)
        self.streams.add(stream)
        stream.offer(_live(source))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(source), name="dragoman dashboards")
        return stream

    async def _send(self, source: OverviewSource) -> None:
        while self.streams:
            await asyncio.sleep(LIVE_EVERY)
            data = _live(source)
            for stream in list(self.streams):
                stream.offer(data)

    def close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()


def _live(source: OverviewSource) -> bytes:
    return encode(msgspec.json.encode(source.document()), "overview")


class HistoryRoutes:
    """The routes. The server sets `source` when the broker runs."""

    def __init__(self, views: ViewRoutes, channels: ClientChannels, settings: HttpSettings) -> None:
        self.source: OverviewSource | None = None
        self._views = views
        self._channels = channels
        self._settings = settings
        self.live_streams = LiveStreams()

    @property
    def _source(self) -> OverviewSource:
        if self.source is None:
            raise Problem(503, "the broker is starting", "starting", headers={"Retry-After": "1"})
        return self.source

    async def overview(self, request: Request) -> Response:
        """GET /v1/overview: the broker at a glance, and the last hour."""
        self._views.allow("overview")
        source = self._source
        more = {"series": source.series(), "has_tables": source.has_tables}
        return answer(source.document() | more)

    async def series(self, request: Request) -> Response:
        """GET /v1/history/series?since=&until=: a range from the pipeline's tables, else a day."""
        self._views.allow("overview")
        since = number(request, "since", 0.0, 0.0, 1e12)
        until = number(request, "until", 0.0, 0.0, 1e12)
        return answer(await self._source.table_series(since, until))

    async def cluster(self, request: Request) -> Response:
        """GET /v1/cluster: the nodes, as each answers, and the brokers of the mesh."""
        self._views.allow("overview")
        return answer(await self._source.cluster())

    async def live(self, request: Request) -> Response:
        """GET /v1/overview/live: the same without the last hour, once a second (SSE)."""
        self._views.allow("overview")
        stream = self.live_streams.add(self._source)
        return StreamResponse(stream, self._channels.connection.is_closing, self._settings)

    async def services(self, request: Request) -> Response:
        """GET /v1/overview/services: services with the age of the oldest waiting job."""
        self._views.allow("services")
        return answer({"services": self._source.services()})

    async def workers(self, request: Request) -> Response:
        """GET /v1/overview/workers: as /v1/workers, from rows that dashboards share."""
        self._views.allow("workers")
        return workers_page(request, self._source.workers())

    async def bridges(self, request: Request) -> Response:
        """GET /v1/overview/bridges: ended jobs by the dialects of client and worker."""
        self._views.allow("overview")
        return answer({"bridges": self._source.bridges()})

    async def jobs(self, request: Request) -> Response:
        """GET /v1/history/jobs: search jobs, newest first."""
        self._views.allow("jobs")
        wanted, before, limit = self._wanted(request)
        return _page(await self._source.find_jobs(wanted, before, limit))

    async def records(self, request: Request) -> Response:
        """GET /v1/history/records: search the ledger's records, newest first."""
        self._views.allow("records")
        wanted, before, limit = self._wanted(request)
        return _page(await self._source.queries.records(wanted, before, limit))

    def _wanted(self, request: Request) -> tuple[HistoryFilter, int, int]:
        query = request.query_params
        texts = {name: query.get(name, "") for name in (*_TEXTS, "text")}
        if any(len(text) > LONGEST_TEXT for text in texts.values()):
            raise Problem(400, f"a filter has at most {LONGEST_TEXT} characters")
        if texts["state"] and texts["state"] not in list(JobState):
            states = ", ".join(JobState)
            raise Problem(400, f"unknown state {texts['state']!r}; use one of {states}")
        hidden = () if query.get("builtin") else tuple(self._source.hidden_services())
        wanted = HistoryFilter(
            tuple(query.getlist("kind"))[:20],
            **texts,
            since=number(request, "since", 0.0, 0.0, 1e12),
            until=number(request, "until", 0.0, 0.0, 1e12),
            without=hidden,
        )
        before = whole_number(request, "before", 0, 0, 2**62)
        return wanted, before, whole_number(request, "limit", 50, 1, LARGEST_PAGE)

    async def job_records(self, request: Request) -> Response:
        """GET /v1/jobs/{job}/records: every record of a job, without bodies."""
        self._views.allow("jobs")
        job = request.path_params["job"]
        records = await self._source.queries.history(job)
        if not records:
            raise Problem(404, f"the ledger has no record of the job {job}", "unknown_job", job=job)
        return answer({"job": job, "records": [_plain(record) for record in records]})

    async def body(self, request: Request) -> Response:
        """GET /v1/jobs/{job}/bodies/{seq}: the body of one record; `?download` for its bytes."""
        job, seq = request.path_params["job"], request.path_params["seq"]
        channel = self._channels.of(client_name(request))
        status = known(await channel.ask(ResultRequested(JobId(job), channel.peer)))
        queries = self._source.queries
        found = [r for r in await queries.history(job) if r.seq == seq]
        if found and found[0].kind in _RESULTS and _is_gone(status):
            raise of_fault(status.fault or Fault(FaultCode.RESULT_GONE), job=job)
        body = await queries.body(found[0]) if found else None
        if body is None:
            raise Problem(404, f"record {seq} of the job {job} has no body", "unknown_body")
        if "download" in request.query_params:
            return _download(f"{job}-{seq}.bin", b"".join(body.parts))
        return answer({"seq": seq, **queries.content(found[0], body)})

    async def reports(self, request: Request) -> Response:
        """GET /v1/reports: the pipeline's reports in the folder of reports."""
        self._views.allow("overview")
        return answer({"reports": await asyncio.to_thread(self._source.reports)})

    async def report(self, request: Request) -> Response:
        """GET /v1/reports/{name}: one report, as a page without scripts."""
        self._views.allow("overview")
        name = request.path_params["name"]
        found = await asyncio.to_thread(self._source.report, name)
        if found is None:
            raise Problem(404, f"there is no report {name}", "unknown_report")
        policy = {"Content-Security-Policy": _REPORT_POLICY}
        return Response(found, media_type="text/html; charset=utf-8", headers=policy)


#: Records whose bodies are results of attempts.
_RESULTS: Final = frozenset({Kind.ENDED, Kind.GATHERED, Kind.LATE})


def _is_gone(status: JobStatus) -> bool:
    faults = (status.fault, *(part.fault for part in status.parts))
    return any(fault is not None and fault.code is FaultCode.RESULT_GONE for fault in faults)


def _page(page: HistoryPage) -> Response:
    return answer({"rows": page.rows, "before": page.before, "looked_back_to": page.looked_back_to})


def _plain(record: Record) -> dict[str, object]:
    return {name: each for name, each in asdict(record).items() if each not in ("", 0)}


def _download(name: str, data: bytes) -> Response:
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    headers = {"Content-Disposition": disposition}
    return Response(data, media_type="application/octet-stream", headers=headers)
