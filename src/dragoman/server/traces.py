"""Spans of jobs and attempts, made from durable records and exported over OTLP.

A fold, like the statistics: a job's span begins with `submitted` and ends with `ended`; each
dispatch begins the span of an attempt. An attempt after the first links to the one before it. The
OpenTelemetry SDK exports in a thread of its own; if its queue is full, it drops spans.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dragoman.dialects.base import BodyCodecs
from dragoman.ledger.base import Entry
from dragoman.model.content import Unmappable
from dragoman.model.record import Kind, Record
from dragoman.model.trace import TraceContext, read_trace, span_id
from dragoman.model.value import value

#: Jobs whose spans are open; beyond that the oldest is given up.
MOST_OPEN: Final = 100_000
_MISSING: Final = (
    "[traces] endpoint is set, but OpenTelemetry is not installed; run: pip install"
    " 'dragoman[otel]'"
)
#: Records that are events of a job's span.
_EVENTS: Final = frozenset(
    {Kind.ACCEPTED, Kind.INPUT_ASKED, Kind.INPUT_GIVEN, Kind.CANCEL_ASKED, Kind.LATE, Kind.REQUEUED}
)


@value
class FinishedSpan:
    """One span, as the exporter gets it. Instants are seconds since the epoch."""

    name: str
    trace: str
    span: str
    parent: str
    start: float
    end: float
    attributes: dict[str, str | int]
    events: tuple[tuple[str, float], ...] = ()
    #: The span of the attempt before.
    link: str = ""
    fault: str = ""


class OpenTrace:
    """A job that has not ended."""

    __slots__ = ("attempt", "attempt_span", "attempt_start", "context", "events", "start", "worker")

    def __init__(self, context: TraceContext, start: float) -> None:
        self.context = context
        self.start = start
        self.events: list[tuple[str, float]] = []
        self.attempt, self.attempt_span, self.attempt_start, self.worker = 0, "", 0.0, ""


class JobTraces:
    """Folds durable entries into spans. `durable` is a listener of the loop."""

    def __init__(self, export: Callable[[FinishedSpan], None], codecs: BodyCodecs) -> None:
        self._export = export
        self._codecs = codecs
        self._open: dict[str, OpenTrace] = {}

    def durable(self, entries: Sequence[Entry]) -> None:
        """Take a durable batch."""
        for entry in entries:
            record = entry.record
            if record.kind == Kind.SUBMITTED:
                self._submitted(entry)
            elif record.job in self._open:
                self._continued(record, self._open[record.job])

    def _submitted(self, entry: Entry) -> None:
        record, headers = entry.record, {}
        codec = self._codecs.get(entry.body.dialect) if entry.body else None
        if codec is not None and entry.body is not None:
            try:
                headers = dict(codec.read_call(entry.body).headers)
            except Unmappable:
                headers = {}
        context = read_trace(headers, record.job)
        if context.is_sampled:
            self._open[record.job] = OpenTrace(context, record.at)
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]

    def _continued(self, record: Record, job: OpenTrace) -> None:
        if record.kind in _EVENTS:
            job.events.append((record.kind, record.at))
        if record.kind == Kind.DISPATCHED:
            self._end_attempt(record, job, "superseded" if job.attempt_start else "")
            job.attempt, job.attempt_start, job.worker = record.attempt, record.at, record.worker
        elif record.kind == Kind.REQUEUED:
            self._end_attempt(record, job, record.fault or "requeued")
        elif record.kind == Kind.ENDED:
            fault = "" if record.state == "succeeded" else record.fault or record.state
            self._end_attempt(record, job, fault)
            self._end_job(record, job, fault)

    def _end_attempt(self, record: Record, job: OpenTrace, fault: str) -> None:
        if not job.attempt_start:
            return
        span = span_id(record.job, f"attempt {record.part} {job.attempt}")
        attributes: dict[str, str | int] = {
            "dragoman.job": record.job,
            "dragoman.worker": job.worker,
            "dragoman.attempt": job.attempt,
        }
        self._export(
            FinishedSpan(
                f"{record.service} attempt {job.attempt}",
                job.context.trace,
                span,
                span_id(record.job, "job"),
                job.attempt_start,
                record.at,
                attributes,
                link=job.attempt_span,
                fault=fault,
            )
        )
        job.attempt_span, job.attempt_start = span, 0.0

    def _end_job(self, record: Record, job: OpenTrace, fault: str) -> None:
        del self._open[record.job]
        attributes: dict[str, str | int] = {
            "dragoman.job": record.job,
            "dragoman.service": record.service,
            "dragoman.task": record.task,
            "dragoman.client": record.client,
            "dragoman.state": record.state,
        }
        name = f"{record.service} {record.task}".strip()
        span, parent = span_id(record.job, "job"), job.context.span
        self._export(
            FinishedSpan(
                name,
                job.context.trace,
                span,
                parent,
                job.start,
                record.at,
                attributes,
                tuple(job.events),
                fault=fault,
            )
        )


class OtlpSpans:
    """Exports spans by the OpenTelemetry SDK. Raises ValueError if it is not installed."""

    def __init__(self, endpoint: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise ValueError(_MISSING) from None
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=10)
        self._resource = Resource.create({"service.name": "dragoman"})
        self._spans = BatchSpanProcessor(exporter, schedule_delay_millis=1000)

    def export(self, span: FinishedSpan) -> None:
        """Queue a span; returns at once."""
        self._spans.on_end(self._readable(span))

    def _readable(self, span: FinishedSpan) -> Any:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        status = Status(StatusCode.ERROR, span.fault) if span.fault else Status(StatusCode.OK)
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace, span.span),
            parent=_context(span.trace, span.parent) if span.parent else None,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(name, timestamp=_nanoseconds(at)) for name, at in span.events],
            links=[Link(_context(span.trace, span.link))] if span.link else [],
            kind=SpanKind.CONSUMER,
            status=status,
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
        )

    def close(self) -> None:
        """Export what is queued."""
        self._spans.shutdown()  # type: ignore[no-untyped-call]


def _context(trace: str, span: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace, 16), int(span, 16), False, TraceFlags(1))


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
