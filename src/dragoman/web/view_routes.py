"""Read-only routes: services, workers, clients, jobs, why, health."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.view import (
    ClientRow,
    ClusterRow,
    ServiceRow,
    Totals,
    TroubleRow,
    WorkerRow,
)
from dragoman.model.job import JobState
from dragoman.model.value import value
from dragoman.transports.origins import ORIGINS
from dragoman.web.identity import CALLER, Checks
from dragoman.web.job_documents import answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import number, whole_number


class LinkRow(Protocol):
    """One link and its counters since the start."""

    name: str
    received: int
    sent: int
    connections: int
    internal_errors: int
    #: Refused connections, by reason.
    refused: dict[str, int]


class ViewSource(Protocol):
    """Reads the live broker as rows of plain values."""

    def services(self) -> Sequence[ServiceRow]:
        """Return a row per service."""
        ...

    def workers(self) -> Sequence[WorkerRow]:
        """Return a row per worker."""
        ...

    def clients(self) -> Sequence[ClientRow]:
        """Return a row per client."""
        ...

    def links(self) -> Sequence[LinkRow]:
        """Return a row per link."""
        ...

    def totals(self) -> Totals:
        """Return the broker's counts."""
        ...

    def troubles(self) -> Sequence[TroubleRow]:
        """Return what is wrong with the broker now."""
        ...

    def task_failures(self) -> Mapping[str, int]:
        """Return the background tasks that failed since the start, by name."""
        ...

    def cluster(self) -> ClusterRow | None:
        """Return this broker as a node of its cluster; None: it is alone."""
        ...

    def jobs(
        self, state: JobState | None, limit: int, service: str = ""
    ) -> list[dict[str, object]]:
        """Return the newest jobs, of one state and service if given."""
        ...

    def why(self, job: str) -> dict[str, object]:
        """Explain the state of a job."""
        ...

    def nodes(self) -> list[dict[str, object]]:
        """Return the compute nodes."""
        ...

    def resources(self, service: str) -> list[dict[str, object]]:
        """Return the resources and the workers that own them."""
        ...

    def schedules(self) -> list[dict[str, object]]:
        """Return the schedules, with their last and next ticks."""
        ...

    def dead(self, service: str, fault: str, older: float, limit: int) -> list[dict[str, object]]:
        """Return dead letters, the newest first."""
        ...


@value
class WorkerFilter:
    """The wanted workers; empty text means any."""

    status: str
    service: str
    dialect: str
    text: str

    @classmethod
    def read(cls, query: Mapping[str, str]) -> "WorkerFilter":
        """Read a query string."""
        names = ("status", "service", "dialect", "text")
        return cls(*(query.get(name, "") for name in names))

    def wants(self, row: WorkerRow) -> bool:
        """Tell whether a worker is wanted."""
        return (
            self.status in ("", row.status)
            and self.dialect in ("", row.dialect)
            and (not self.service or self.service in row.services)
            and (not self.text or self._is_in(row))
        )

    def _is_in(self, row: WorkerRow) -> bool:
        labels = (f"{name}={text}" for name, text in row.labels.items())
        texts = (row.name, row.peer, row.principal, *row.services, *labels)
        return any(self.text.lower() in text.lower() for text in texts)


class ViewRoutes:
    """The routes. The server sets `view` when the broker runs."""

    def __init__(self, checks: Checks | None = None) -> None:
        self.view: ViewSource | None = None
        self._checks = checks

    def allow(self, what: str) -> None:
        """Raise a 403 problem if the caller may not read `what`."""
        reason = self._checks.may_look(CALLER.get().key, what) if self._checks else ""
        if reason:
            raise Problem(403, reason, "denied")

    @property
    def _broker(self) -> ViewSource:
        if self.view is None:
            raise Problem(503, "the broker is starting", "starting", headers={"Retry-After": "1"})
        return self.view

    async def services(self, request: Request) -> Response:
        """GET /v1/services."""
        self.allow("services")
        return answer({"services": self._broker.services()})

    async def workers(self, request: Request) -> Response:
        """GET /v1/workers?status=&service=&dialect=&text=&from=&limit=: rows, and how many."""
        self.allow("workers")
        return workers_page(request, self._broker.workers())

    async def clients(self, request: Request) -> Response:
        """GET /v1/clients."""
        self.allow("clients")
        return answer({"clients": self._broker.clients()})

    async def nodes(self, request: Request) -> Response:
        """GET /v1/nodes: the compute nodes, connected or not."""
        self.allow("nodes")
        return answer({"nodes": self._broker.nodes()})

    async def resources(self, request: Request) -> Response:
        """GET /v1/resources?service=: the resources and the workers that own them."""
        self.allow("resources")
        service = request.query_params.get("service", "")
        return answer({"resources": self._broker.resources(service)})

    async def jobs(self, request: Request) -> Response:
        """GET /v1/jobs?state=&service=&limit=: newest first."""
        self.allow("jobs")
        text = request.query_params.get("state", "")
        try:
            state = JobState(text) if text else None
        except ValueError:
            states = ", ".join(JobState)
            raise Problem(400, f"unknown state {text!r}; use one of {states}") from None
        limit = whole_number(request, "limit", 100, 1, 10_000)
        service = request.query_params.get("service", "")
        return answer({"jobs": self._broker.jobs(state, limit, service)})

    async def schedules(self, request: Request) -> Response:
        """GET /v1/schedules: with the last and next ticks, in seconds since the epoch."""
        self.allow("services")
        return answer({"schedules": self._broker.schedules()})

    async def dead(self, request: Request) -> Response:
        """GET /v1/dead?service=&fault=&older=&limit=: dead letters, newest first."""
        self.allow("jobs")
        query = request.query_params
        older = number(request, "older", 0.0, 0.0, 1e9)
        limit = whole_number(request, "limit", 100, 1, 10_000)
        found = self._broker.dead(query.get("service", ""), query.get("fault", ""), older, limit)
        return answer({"dead": found})

    async def why(self, request: Request) -> Response:
        """GET /v1/jobs/{job}/why: always has an answer."""
        self.allow("why")
        return answer(self._broker.why(request.path_params["job"]))

    async def healthy(self, request: Request) -> Response:
        """GET /healthz: the process answers."""
        return answer({"status": "ok"})

    async def is_ready(self, request: Request) -> Response:
        """GET /readyz: the broker takes work. Says what is wrong, without paths: anyone may ask.

        In a cluster it says the role of the node that was asked. A standby passes the request
        through to the leader, which knows who did.
        """
        if self._broker.totals().is_draining:
            raise Problem(503, "the broker is stopping", "draining", headers={"Retry-After": "2"})
        troubles = self._broker.troubles()
        shown = [{"part": each.part, "reason": each.reason} for each in troubles]
        for each in troubles:
            if each.is_blocking:
                detail = f"nothing can be acknowledged: {each.reason}"
                headers = {"Retry-After": "2"}
                raise Problem(503, detail, "unavailable", headers=headers, troubles=shown)
        role = self._role(request)
        return answer({"status": "ready", **role, **({"troubles": shown} if shown else {})})

    def _role(self, request: Request) -> dict[str, str]:
        row = self._broker.cluster()
        if row is None:
            return {}
        passed_by = ORIGINS.node_of(request.scope.get("client"))
        role = "standby" if passed_by else row.role
        return {"node": passed_by or row.node, "role": role, "leader": row.leader}


def workers_page(request: Request, workers: Sequence[WorkerRow]) -> Response:
    """Return a page of the wanted workers, and how many there are."""
    wanted = WorkerFilter.read(request.query_params)
    rows = [row for row in workers if wanted.wants(row)]
    first = whole_number(request, "from", 0, 0, 10**9)
    limit = whole_number(request, "limit", 10**6, 1, 10**6)
    # Rows are encoded as they are: thousands of dictionaries would cost 20 times more.
    return answer({"workers": rows[first : first + limit], "total": len(rows)})
