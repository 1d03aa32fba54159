"""Metrics of times, attempts, faults, disk and loop: what the statistics of the broker measured.

Cardinality is bounded. Times have at most 200 services (others share the name `other`) by 8
dialects. Gauges of services show the 200 with the longest queues. Other labels are closed lists.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

MOST_SERVICES: Final = 200
_TIMES: Final = (
    ("dragoman_job_queue_seconds", "queue", "From submission to the first dispatch"),
    ("dragoman_job_run_seconds", "run", "From the last dispatch to the end"),
    ("dragoman_job_total_seconds", "total", "From submission to the end"),
)
_PROCESS: Final = (
    ("append", "dragoman_ledger_append_seconds", "From an append to its fsync"),
    ("batch", "dragoman_ledger_append_records", "Records that share an fsync"),
    ("lag", "dragoman_loop_lag_seconds", "How late the event loop runs a callback"),
)
_LEDGER: Final = (
    ("bytes", "dragoman_ledger_bytes", "Size of the ledger with its log"),
    ("disk_free", "dragoman_ledger_disk_free_bytes", "Space left on the ledger's disk"),
    ("disk_total", "dragoman_ledger_disk_bytes", "Size of the ledger's disk"),
    ("unexported", "dragoman_ledger_unexported_records", "Records that are not exported yet"),
)


class MeasuredHistogram(Protocol):
    """Counts by bucket."""

    bounds: Sequence[float]
    counts: list[int]
    total: float
    #: By bucket; each has a job, a value and an instant.
    exemplars: dict[int, Any]


class MeasuredBroker(Protocol):
    """The broker's statistics."""

    def measured_times(self) -> Mapping[tuple[str, str], Any]:
        """Return the times of jobs by service and dialect."""
        ...

    def measured_counts(self) -> dict[str, Mapping[object, int]]:
        """Return the counts of faults, bridges and denials."""
        ...

    def measured_process(self) -> Mapping[str, MeasuredHistogram]:
        """Return the histograms of appends and of the loop."""
        ...

    def services(self) -> list[dict[str, object]]:
        """Return the services."""
        ...

    def document(self) -> dict[str, Any]:
        """Return the broker at a glance."""
        ...


def measurements(broker: MeasuredBroker) -> Iterator[Metric]:
    """Yield the metrics."""
    yield from _times(broker)
    yield from _counts(broker.measured_counts())
    for name, metric, text in _PROCESS:
        family = HistogramMetricFamily(metric, text)
        _add(family, [], broker.measured_process()[name])
        yield family
    yield from _gauges(broker)


def _times(broker: MeasuredBroker) -> Iterator[Metric]:
    times = broker.measured_times()
    labels = ["service", "dialect"]
    for metric, name, text in _TIMES:
        family = HistogramMetricFamily(metric, text, labels=labels)
        for key, each in sorted(times.items()):
            _add(family, [*key], getattr(each, name))
        yield family
    attempts = CounterMetricFamily("dragoman_attempts", "Jobs sent to a worker", labels=labels)
    for key, each in sorted(times.items()):
        attempts.add_metric([*key], each.attempts)
    yield attempts


def _add(family: HistogramMetricFamily, labels: list[str], measured: MeasuredHistogram) -> None:
    family.add_metric(labels, buckets=list(_buckets(measured)), sum_value=measured.total)


def _buckets(measured: MeasuredHistogram) -> Iterator[Any]:
    """Yield cumulative buckets, with an exemplar where there is one."""
    seen = 0
    names = [*(str(bound) for bound in measured.bounds), "+Inf"]
    for number, (name, count) in enumerate(zip(names, measured.counts, strict=True)):
        seen += count
        found = measured.exemplars.get(number)
        if found is None:
            yield name, seen
        else:
            yield name, seen, Exemplar({"job": found.job[:64]}, found.observed, found.at)


def _counts(counts: dict[str, Mapping[Any, int]]) -> Iterator[Metric]:
    for name, text, labels in (
        ("faults", "Jobs that did not succeed, and refusals, by fault", ["code"]),
        ("bridge_jobs", "Ended jobs by dialect", ["client", "worker", "state"]),
        ("denied", "Operations that the policy denied", []),
    ):
        family = CounterMetricFamily(f"dragoman_{name}", text, labels=labels)
        for key, number in sorted(counts[name].items()):
            family.add_metric([key] if isinstance(key, str) and labels else [*key], number)
        yield family


def _gauges(broker: MeasuredBroker) -> Iterator[Metric]:
    document = broker.document()
    for field, metric, text in _LEDGER:
        value = document["ledger"][field]
        if value is not None:
            yield GaugeMetricFamily(metric, text, value=value)
    yield GaugeMetricFamily("dragoman_dead_letters", "Dead letters", value=document["dead"])
    start = document["started_at"]
    yield GaugeMetricFamily("process_start_time_seconds", "Start of the broker", value=start)
    memory = document["memory"]
    yield GaugeMetricFamily("process_resident_memory_bytes", "Resident memory", value=memory)
    cpu = document["cpu_seconds"]
    yield CounterMetricFamily("process_cpu_seconds", "CPU time", value=cpu)
    text = "Age of the oldest job that waits for its first worker"
    oldest = GaugeMetricFamily("dragoman_service_oldest_seconds", text, labels=["service"])
    for row in most_queued(broker.services()):
        oldest.add_metric([row["name"]], row["oldest_age"])
    yield oldest


def most_queued(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the services with the longest queues, bounded."""
    return sorted(rows, key=lambda row: (-row["queued"], row["name"]))[:MOST_SERVICES]
