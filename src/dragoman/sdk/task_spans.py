"""A task runs in a span whose parent is the caller's, and its log lines carry job and trace.

The span needs the OpenTelemetry API in the program; without it, nothing is added.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import structlog

from dragoman.model.trace import HEADER, read_trace

trace: Any = None
with suppress(ImportError):
    from opentelemetry import trace

_TRACER: Final = "dragoman"


@contextmanager
def task_span(task: str, job: str, headers: Mapping[str, str]) -> Iterator[None]:
    """Run a task in a span whose parent is the caller's; its log lines carry both ids."""
    if HEADER not in headers:
        with structlog.contextvars.bound_contextvars(job=job):
            yield
        return
    context = read_trace(headers, job)
    with structlog.contextvars.bound_contextvars(job=job, trace=context.trace):
        if trace is None or not context.span:
            yield
            return
        flags = trace.TraceFlags(int(context.is_sampled))
        caller = trace.SpanContext(int(context.trace, 16), int(context.span, 16), True, flags)
        parent = trace.set_span_in_context(trace.NonRecordingSpan(caller))
        tracer = trace.get_tracer(_TRACER)
        with tracer.start_as_current_span(task or "task", parent, attributes={"dragoman.job": job}):
            yield
