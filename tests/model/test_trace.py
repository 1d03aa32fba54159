"""Trace context: read, written, derived."""

import pytest

from dragoman.model.trace import TraceContext, read_trace, span_id

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_context_is_read_as_it_is_written() -> None:
    context = TraceContext(TRACE, SPAN, False)
    assert context.header() == f"00-{TRACE}-{SPAN}-00"
    assert read_trace({"Traceparent": context.header()}, "j") == context


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", f"00-{TRACE}-{SPAN}", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01"),
        f"ff-{TRACE}-{SPAN}-01",
    ],
)
def test_a_broken_context_is_replaced_by_one_of_the_job(text: str) -> None:
    found = read_trace({"traceparent": text}, "j")
    assert found == read_trace({}, "j")
    assert (len(found.trace), found.span, found.is_sampled) == (32, "", True)


def test_ids_are_the_same_in_every_process_and_differ_by_job() -> None:
    assert span_id("j", "job") == span_id("j", "job")
    assert len({span_id("j", "job"), span_id("k", "job"), span_id("j", "attempt 0 1")}) == 3
