"""Trace context of calls: a call carries the context of the program's current span.

A program with a span has loaded the OpenTelemetry API. So this module does not load it: the import
of a client stays cheap.
"""

import sys
from dataclasses import replace
from typing import Any

from dragoman.model.content import Call
from dragoman.model.trace import HEADER, TraceContext


def with_trace(call: Call) -> Call:
    """Return a call with the trace context of the current span, if there is one."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or HEADER in call.headers:
        return call
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return call
    is_sampled = bool(current.trace_flags & 1)
    context = TraceContext(f"{current.trace_id:032x}", f"{current.span_id:016x}", is_sampled)
    return replace(call, headers={**call.headers, HEADER: context.header()})
