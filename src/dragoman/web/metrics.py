"""`/metrics`: the core's counts and rows as Prometheus reads them.

Nothing is counted here: each scrape reads what the records add up to and what is there now.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from dragoman.core.view import Totals
from dragoman.web.problems import Problem
from dragoman.web.view_routes import ViewRoutes, ViewSource

_ENDS: Final = ("succeeded", "failed", "expired", "cancelled", "dead")
#: Counters without labels: name, field of the totals, words.
_COUNTS: Final = (
    ("dragoman_jobs_submitted", "jobs", "Jobs taken in"),
    ("dragoman_jobs_refused", "refused", "Submissions turned down"),
    ("dragoman_attempts_requeued", "requeued", "Attempts that ended without a result"),
    ("dragoman_replies_late", "late", "Results recorded and not applied"),
    ("dragoman_messages_rejected", "rejected", "Malformed or hostile messages on record"),
    ("dragoman_messages_undelivered", "undelivered", "Messages that found nobody or no room"),
)


class Collector:
    """Turns one look at the broker into metrics."""

    def __init__(self, view: ViewSource) -> None:
        self._sight = view

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        totals = self._sight.totals()
        yield from self._counts(totals)
        yield from self._gauges(totals)
        yield from self._services()
        yield from self._workers()
        yield from self._links()

    def _counts(self, totals: Totals) -> Iterator[Metric]:
        for name, field, words in _COUNTS:
            yield CounterMetricFamily(name, words, value=getattr(totals, field))
        ended = CounterMetricFamily("dragoman_jobs_ended", "Jobs ended", labels=["state"])
        for state in _ENDS:
            ended.add_metric([state], getattr(totals, state))
        yield ended

    def _gauges(self, totals: Totals) -> Iterator[Metric]:
        yield GaugeMetricFamily("dragoman_ledger_seq", "Last record", value=totals.records)
        yield GaugeMetricFamily("dragoman_jobs_open", "Jobs not ended", value=totals.open_jobs)
        words = "Whether the broker takes no new work"
        yield GaugeMetricFamily("dragoman_draining", words, value=float(totals.is_draining))
        clients = len(self._sight.clients())
        yield GaugeMetricFamily("dragoman_clients", "Clients heard lately", value=clients)

    def _services(self) -> Iterator[Metric]:
        rows = self._sight.services()
        for name, field, words in (
            ("dragoman_service_queued", "queued", "Jobs that wait"),
            ("dragoman_service_queued_bytes", "queued_bytes", "Bytes of jobs that wait"),
            ("dragoman_service_running", "running", "Jobs with a worker"),
            ("dragoman_service_workers", "workers", "Workers"),
        ):
            yield _gauge(name, words, "service", ((r.name, getattr(r, field)) for r in rows))

    def _workers(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "dragoman_workers", "Workers by dialect and status", labels=["dialect", "status"]
        )
        found: dict[tuple[str, str], int] = {}
        for row in self._sight.workers():
            found[row.dialect, row.status] = found.get((row.dialect, row.status), 0) + 1
        for labels, number in sorted(found.items()):
            family.add_metric(labels, number)
        yield family

    def _links(self) -> Iterator[Metric]:
        rows = self._sight.links()
        for name, field, words in (
            ("dragoman_link_received", "received", "Messages taken in"),
            ("dragoman_link_sent", "sent", "Messages sent"),
            ("dragoman_link_internal_errors", "internal_errors", "Errors of the broker's own"),
        ):
            family = CounterMetricFamily(name, words, labels=["link"])
            for row in rows:
                family.add_metric([row.name], getattr(row, field))
            yield family
        refused = CounterMetricFamily(
            "dragoman_link_refused", "Handshakes refused", labels=["link", "reason"]
        )
        for row in rows:
            for reason, number in sorted(row.refused.items()):
                refused.add_metric([row.name, reason], number)
        yield refused


def _gauge(name: str, words: str, label: str, rows: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for of, number in rows:
        family.add_metric([of], number)
    return family


class MetricsRoutes:
    """The route."""

    def __init__(self, look: ViewRoutes) -> None:
        self._look = look

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        self._look.allow("metrics")
        view = self._look.view
        if view is None:
            raise Problem(503, "the broker is starting", "starting")
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Collector(view))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
