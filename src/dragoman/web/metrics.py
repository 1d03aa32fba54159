"""`/metrics`: the broker's counts and rows in Prometheus format.

This module counts nothing: each scrape reads the totals of the records and the current rows.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS_TYPE
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.view import ClusterState, Totals
from dragoman.web.measurements import MOST_SERVICES, MeasuredBroker, measurements
from dragoman.web.problems import Problem
from dragoman.web.view_routes import ViewRoutes, ViewSource

_ENDS: Final = ("succeeded", "failed", "expired", "cancelled", "dead")
#: Counters without labels: name, field of the totals, help text.
_COUNTS: Final = (
    ("dragoman_jobs_submitted", "jobs", "Jobs accepted"),
    ("dragoman_jobs_refused", "refused", "Submissions refused"),
    ("dragoman_attempts_requeued", "requeued", "Attempts that ended without a result"),
    ("dragoman_replies_late", "late", "Results recorded and not applied"),
    ("dragoman_messages_rejected", "rejected", "Malformed or hostile messages recorded"),
    (
        "dragoman_messages_undelivered",
        "undelivered",
        "Messages whose peer was gone or had a full queue",
    ),
)


class Collector:
    """Collects the metrics of one scrape."""

    def __init__(self, view: ViewSource, measured: MeasuredBroker | None = None) -> None:
        self._view = view
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        totals = self._view.totals()
        yield from self._counts(totals)
        yield from self._gauges(totals)
        yield from self._services()
        yield from self._workers()
        yield from self._links()
        yield from self._cluster()
        if self._measured is not None:
            yield from measurements(self._measured)

    def _counts(self, totals: Totals) -> Iterator[Metric]:
        for name, field, text in _COUNTS:
            yield CounterMetricFamily(name, text, value=getattr(totals, field))
        ended = CounterMetricFamily("dragoman_jobs_ended", "Jobs ended", labels=["state"])
        for state in _ENDS:
            ended.add_metric([state], getattr(totals, state))
        yield ended

    def _gauges(self, totals: Totals) -> Iterator[Metric]:
        yield GaugeMetricFamily("dragoman_ledger_seq", "Last record", value=totals.records)
        yield GaugeMetricFamily("dragoman_jobs_open", "Jobs not ended", value=totals.open_jobs)
        text = "Whether the broker is draining"
        yield GaugeMetricFamily("dragoman_draining", text, value=float(totals.is_draining))
        troubles = [(each.part, 1.0) for each in self._view.troubles()]
        yield _gauge("dragoman_trouble", "Parts of the broker that fail now", "part", troubles)
        failures = CounterMetricFamily(
            "dragoman_background_failures", "Background tasks that failed", labels=["task"]
        )
        for task, number in sorted(self._view.task_failures().items()):
            failures.add_metric([task], number)
        yield failures
        clients = len(self._view.clients())
        yield GaugeMetricFamily("dragoman_clients", "Clients seen lately", value=clients)

    def _cluster(self) -> Iterator[Metric]:
        row = self._view.cluster()
        if row is None:
            return
        yield _gauge("dragoman_cluster_role", "The role of this node", "role", [(row.role, 1.0)])
        yield GaugeMetricFamily("dragoman_cluster_epoch", "Term of the leader", value=row.epoch)
        text = "Messages of the ledger's stream that this node has not applied"
        yield GaugeMetricFamily("dragoman_cluster_lag", text, value=row.lag)
        yield from cluster_state(row.state)

    def _services(self) -> Iterator[Metric]:
        rows = sorted(self._view.services(), key=lambda row: (-row.queued, row.name))
        rows = rows[:MOST_SERVICES]
        for name, field, text in (
            ("dragoman_service_queued", "queued", "Jobs in the queue"),
            ("dragoman_service_queued_bytes", "queued_bytes", "Bytes of jobs in the queue"),
            ("dragoman_service_running", "running", "Jobs at a worker"),
            ("dragoman_service_workers", "workers", "Workers"),
        ):
            yield _gauge(name, text, "service", ((r.name, getattr(r, field)) for r in rows))

    def _workers(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "dragoman_workers", "Workers by dialect and status", labels=["dialect", "status"]
        )
        found: dict[tuple[str, str], int] = {}
        for row in self._view.workers():
            found[row.dialect, row.status] = found.get((row.dialect, row.status), 0) + 1
        for labels, number in sorted(found.items()):
            family.add_metric(labels, number)
        yield family

    def _links(self) -> Iterator[Metric]:
        rows = self._view.links()
        for name, field, text in (
            ("dragoman_link_received", "received", "Messages received"),
            ("dragoman_link_sent", "sent", "Messages sent"),
            ("dragoman_link_internal_errors", "internal_errors", "Internal errors of the broker"),
        ):
            family = CounterMetricFamily(name, text, labels=["link"])
            for row in rows:
                family.add_metric([row.name], getattr(row, field))
            yield family
        text = "Connections that are open"
        connections = ((row.name, row.connections) for row in rows)
        yield _gauge("dragoman_link_connections", text, "link", connections)
        refused = CounterMetricFamily(
            "dragoman_link_refused", "Handshakes refused", labels=["link", "reason"]
        )
        for row in rows:
            for reason, number in sorted(row.refused.items()):
                refused.add_metric([row.name, reason], number)
        yield refused


def cluster_state(state: ClusterState) -> Iterator[Metric]:
    """Yield what the leader knows of all nodes."""
    yield GaugeMetricFamily("dragoman_cluster_nodes", "Nodes by the settings", value=state.size)
    text = "Nodes that answer; their value is the last record of their copy"
    members = [(each.node, float(each.last)) for each in state.members]
    yield _gauge("dragoman_cluster_member_seq", text, "node", members)
    text = "Messages of the ledger's stream that a node has not applied"
    lags = [(each.node, float(each.lag)) for each in state.members]
    yield _gauge("dragoman_cluster_member_lag", text, "node", lags)
    text = "Whether a server's copy of the ledger's stream is complete"
    servers = [(name, 1.0) for name in state.stream_current]
    servers += [(name, 0.0) for name in state.stream_behind]
    yield _gauge("dragoman_cluster_server_current", text, "server", servers)
    text = "Whether a majority of the servers has a complete copy"
    yield GaugeMetricFamily("dragoman_cluster_quorum", text, value=float(state.has_quorum))


def _gauge(name: str, text: str, label: str, rows: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for of, number in rows:
        family.add_metric([of], number)
    return family


class MetricsRoutes:
    """The route of the metrics."""

    def __init__(self, routes: ViewRoutes, measured: Callable[[], MeasuredBroker | None]) -> None:
        self._routes = routes
        self._measured = measured

    async def metrics(self, request: Request) -> Response:
        """GET /metrics: OpenMetrics if the caller takes it, else Prometheus's older text."""
        self._routes.allow("metrics")
        view = self._routes.view
        if view is None:
            raise Problem(503, "the broker is starting", "starting")
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Collector(view, self._measured()))
        if "application/openmetrics-text" in request.headers.get("accept", ""):
            text = openmetrics(registry)  # type: ignore[no-untyped-call]
            return Response(text, media_type=OPENMETRICS_TYPE)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
