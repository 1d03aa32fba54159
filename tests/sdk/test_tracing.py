"""Trace context in the SDK, added to calls."""

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from dragoman.model.content import Call
from dragoman.sdk.tracing import with_trace

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
