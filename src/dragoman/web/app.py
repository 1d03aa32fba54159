"""The web application: its routes and its error handlers."""

import time
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.dialects.http.settings import HttpSettings
from dragoman.web.broker_connection import WebBrokerConnection
from dragoman.web.browser_sessions import BrowserSessions
from dragoman.web.client_channels import ClientChannels
from dragoman.web.dashboard_routes import DashboardRoutes
from dragoman.web.enrolment import EnrolmentRoutes
from dragoman.web.event_streams import StreamRoutes
from dragoman.web.history_routes import HistoryRoutes
from dragoman.web.identity import Checks
from dragoman.web.jobs import JobRoutes
from dragoman.web.login import LoginRoutes
from dragoman.web.metrics import MetricsRoutes
from dragoman.web.oidc_login import OidcLoginRoutes
from dragoman.web.openapi import OpenApiRoutes
from dragoman.web.problems import Problem, on_http_exception, on_internal_error, on_problem
from dragoman.web.request_reading import ClientDisconnected
from dragoman.web.view_routes import ViewRoutes
from dragoman.web.workers import WorkerRoutes

log = structlog.get_logger("dragoman.web")

#: The caller disconnected before the response; it does not read this.
CLIENT_CLOSED_REQUEST: Final = 499


class Application:
    """All routes."""

    def __init__(
        self,
        connection: WebBrokerConnection,
        settings: HttpSettings,
        new_id: Callable[[], str],
        checks: Checks | None = None,
        sessions: BrowserSessions | None = None,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._channels = channels = ClientChannels(connection)
        self.view_routes = ViewRoutes(checks)
        self._enrolments = EnrolmentRoutes(checks)
        sessions = sessions or BrowserSessions(time.time)
        self._login = LoginRoutes(checks, sessions)
        self._oidc = OidcLoginRoutes(checks, sessions)
        #: Requests that failed with an unexpected exception.
        self.internal_errors = 0
        self._jobs = JobRoutes(channels, settings, new_id)
        self._workers = WorkerRoutes(connection, settings, new_id)
        self._streams = StreamRoutes(channels, settings)
        self.history_routes = HistoryRoutes(self.view_routes, channels, settings)
        self._dashboard = DashboardRoutes()
        self._metrics = MetricsRoutes(self.view_routes, lambda: self.history_routes.source)
        self.asgi: ASGIApp = Starlette(
            routes=self._routes(),
            exception_handlers={
                Problem: on_problem,
                ClientDisconnected: _on_disconnect,
                HTTPException: on_http_exception,
                Exception: self._on_exception,
            },
        )

    def _routes(self) -> list[Route]:
        jobs, workers, views, streams = self._jobs, self._workers, self.view_routes, self._streams
        history, api = self.history_routes, OpenApiRoutes(self._settings)
        get, post, delete = ["GET"], ["POST"], ["DELETE"]
        # A job id may contain slashes, so longer paths come first.
        return [
            Route("/v1/jobs", jobs.submit, methods=post),
            Route("/v1/jobs/bulk", jobs.submit_many, methods=post),
            Route("/v1/jobs", views.jobs, methods=get),
            Route("/v1/call", jobs.call, methods=post),
            Route("/v1/call/{service}", jobs.call_raw, methods=post),
            Route("/v1/jobs/{job:path}/result", jobs.forget_result, methods=delete),
            JobPartRoute("/v1/jobs/{job:path}/result", jobs.result, methods=get),
            JobPartRoute("/v1/jobs/{job:path}/input", jobs.give_input, methods=post),
            JobPartRoute("/v1/jobs/{job:path}/why", views.why, methods=get),
            JobPartRoute("/v1/jobs/{job:path}/records", history.job_records, methods=get),
            JobPartRoute("/v1/jobs/{job:path}/bodies/{seq:int}", history.body, methods=get),
            Route("/v1/jobs/{job:path}", jobs.status, methods=get),
            Route("/v1/jobs/{job:path}", jobs.cancel, methods=delete),
            Route("/v1/services", views.services, methods=get),
            Route("/v1/schedules", views.schedules, methods=get),
            Route("/v1/dead", views.dead, methods=get),
            Route("/v1/clients", views.clients, methods=get),
            Route("/v1/nodes", views.nodes, methods=get),
            Route("/v1/resources", views.resources, methods=get),
            Route("/v1/overview", history.overview, methods=get),
            Route("/v1/overview/live", history.live, methods=get),
            Route("/v1/overview/services", history.services, methods=get),
            Route("/v1/overview/workers", history.workers, methods=get),
            Route("/v1/overview/bridges", history.bridges, methods=get),
            Route("/v1/history/jobs", history.jobs, methods=get),
            Route("/v1/history/records", history.records, methods=get),
            Route("/v1/history/series", history.series, methods=get),
            Route("/v1/cluster", history.cluster, methods=get),
            Route("/v1/reports", history.reports, methods=get),
            Route("/v1/reports/{name}", history.report, methods=get),
            Route("/v1/workers", views.workers, methods=get),
            Route("/v1/workers", workers.ready, methods=post),
            Route("/v1/workers/{session}", workers.leave, methods=delete),
            Route("/v1/workers/{session}/poll", workers.poll, methods=post),
            Route("/v1/workers/{session}/reports", workers.reports, methods=post),
            Route("/v1/workers/{session}/events", workers.publish, methods=post),
            Route(
                "/v1/workers/{session}/jobs/{job:path}/{attempt:int}", workers.report, methods=post
            ),
            Route("/v1/events", streams.events, methods=get),
            Route("/v1/inbox", streams.inbox, methods=get),
            Route("/v1/enrol", self._enrolments.enrol, methods=post),
            Route("/", self._dashboard.page, methods=get),
            Route("/dashboard/{name}", self._dashboard.file, methods=get),
            Route("/login", self._login.page, methods=get),
            Route("/login", self._login.begin, methods=post),
            Route("/login/{issuer}", self._oidc.begin, methods=get),
            Route("/login/{issuer}/callback", self._oidc.finish, methods=get),
            Route("/session", self._login.who, methods=get),
            Route("/logout", self._login.end, methods=post),
            Route("/healthz", views.healthy, methods=get),
            Route("/readyz", views.is_ready, methods=get),
            Route("/metrics", self._metrics.metrics, methods=get),
            Route("/openapi.json", api.document, methods=get),
            Route("/docs", api.page, methods=get),
        ]

    async def _on_exception(self, request: Request, error: Exception) -> Response:
        self.internal_errors += 1
        log.error("unexpected exception in an HTTP request", path=request.url.path, exc_info=error)
        return await on_internal_error(request, error)

    def jobs_ended(self, jobs: Iterable[str]) -> None:
        """Wake the requests that wait for the end of these jobs."""
        for job in jobs if self._channels.endings else ():
            self._channels.endings.resolve(job, None)

    def close(self) -> None:
        """End all waiting requests: the broker is stopping."""
        self.history_routes.live_streams.close()
        self._connection.fail_waiting()
        self._workers.sessions.close()


class JobPartRoute(Route):
    """A part of a job, such as its result. Its path is never read as the id of another job."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match other methods too; the route refuses them with 405."""
        match, found = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL else match), found


class HostMiddleware:
    """Refuses requests for unknown hosts, against DNS rebinding by web pages."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if its Host header names this host."""
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if host_name(host) not in self._hosts:
                detail = f"unknown host {host!r}; `hosts` in the [http] settings adds names"
                await Problem(421, detail).response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


def host_name(host: str) -> str:
    """Return a Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[").lower()
    return host.partition(":")[0].lower()


async def _on_disconnect(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)
