"""Trace context in the SDK, around tasks."""

import structlog
from opentelemetry import trace

from dragoman.sdk.task_spans import task_span

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = f"00-{TRACE:032x}-{SPAN:016x}-01"


def test_a_task_runs_in_the_callers_trace_and_its_log_lines_say_so() -> None:
    with task_span("add", "j1", {"traceparent": PARENT}):
        assert trace.get_current_span().get_span_context().trace_id == TRACE
        bound = structlog.contextvars.get_contextvars()
        assert bound == {"job": "j1", "trace": f"{TRACE:032x}"}
    assert structlog.contextvars.get_contextvars() == {}


def test_a_task_without_context_still_names_its_job() -> None:
    with task_span("add", "j1", {}):
        assert structlog.contextvars.get_contextvars() == {"job": "j1"}
