"""Trace context in the SDK: added to calls, and around tasks."""

import structlog
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from dragoman.model.content import Call
from dragoman.sdk.tracing import task_span, with_trace

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = f"00-{TRACE:032x}-{SPAN:016x}-01"


def test_a_call_inside_a_span_carries_its_context() -> None:
    span = NonRecordingSpan(SpanContext(TRACE, SPAN, False, TraceFlags(1)))
    with trace.use_span(span):
        assert with_trace(Call("add")).headers == {"traceparent": PARENT}
        given = Call("add", headers={"traceparent": "mine"})
        assert with_trace(given) is given


def test_a_call_outside_of_spans_is_left_alone() -> None:
    call = Call("add")
    assert with_trace(call) is call


def test_a_task_runs_in_the_callers_trace_and_its_log_lines_say_so() -> None:
    with task_span("add", "j1", {"traceparent": PARENT}):
        assert trace.get_current_span().get_span_context().trace_id == TRACE
        bound = structlog.contextvars.get_contextvars()
        assert bound == {"job": "j1", "trace": f"{TRACE:032x}"}
    assert structlog.contextvars.get_contextvars() == {}


def test_a_task_without_context_still_names_its_job() -> None:
    with task_span("add", "j1", {}):
        assert structlog.contextvars.get_contextvars() == {"job": "j1"}
