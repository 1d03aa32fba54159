"""Trace context in the SDK: calls carry the current span's; a task runs in a span of its own.

It needs the OpenTelemetry API in the program; without it, nothing is added and nothing breaks.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import structlog

from dragoman.model.content import Call
from dragoman.model.trace import HEADER, TraceContext, read_trace

trace: Any = None
with suppress(ImportError):
    from opentelemetry import trace

_TRACER: Final = "dragoman"


def with_trace(call: Call) -> Call:
    """Return a call with the trace context of the current span, if there is one."""
    if trace is None or HEADER in call.headers:
        return call
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return call
    is_sampled = bool(current.trace_flags & 1)
    context = TraceContext(f"{current.trace_id:032x}", f"{current.span_id:016x}", is_sampled)
    return replace(call, headers={**call.headers, HEADER: context.header()})


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
