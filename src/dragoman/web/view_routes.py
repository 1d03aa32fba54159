"""Read-only routes: services, workers, clients, jobs, why, health."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.view import ClientRow, ServiceRow, Totals, WorkerRow
from dragoman.model.job import JobState
from dragoman.web.identity import CALLER, Checks
from dragoman.web.job_documents import answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import number


class LinkRow(Protocol):
    """One link and its counters since the start."""

    name: str
    received: int
    sent: int
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

    def jobs(self, state: JobState | None, limit: int, service: str = "") -> list[dict[str, Any]]:
        """Return the newest jobs, of one state and service if given."""
        ...

    def why(self, job: str) -> dict[str, Any]:
        """Explain the state of a job."""
        ...


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
        return answer({"services": [asdict(row) for row in self._broker.services()]})

    async def workers(self, request: Request) -> Response:
        """GET /v1/workers."""
        self.allow("workers")
        return answer({"workers": [asdict(row) for row in self._broker.workers()]})

    async def clients(self, request: Request) -> Response:
        """GET /v1/clients."""
        self.allow("clients")
        return answer({"clients": [asdict(row) for row in self._broker.clients()]})

    async def jobs(self, request: Request) -> Response:
        """GET /v1/jobs?state=&service=&limit=: newest first."""
        self.allow("jobs")
        text = request.query_params.get("state", "")
        try:
            state = JobState(text) if text else None
        except ValueError:
            states = ", ".join(JobState)
            raise Problem(400, f"unknown state {text!r}; use one of {states}") from None
        limit = int(number(request, "limit", 100, 1, 10_000))
        service = request.query_params.get("service", "")
        return answer({"jobs": self._broker.jobs(state, limit, service)})

    async def why(self, request: Request) -> Response:
        """GET /v1/jobs/{job}/why: always has an answer."""
        self.allow("why")
        return answer(self._broker.why(request.path_params["job"]))

    async def healthy(self, request: Request) -> Response:
        """GET /healthz: the process answers."""
        return answer({"status": "ok"})

    async def is_ready(self, request: Request) -> Response:
        """GET /readyz: the broker takes work."""
        if self._broker.totals().is_draining:
            raise Problem(503, "the broker is stopping", "draining", headers={"Retry-After": "2"})
        return answer({"status": "ready"})
