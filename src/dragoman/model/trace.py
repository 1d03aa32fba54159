"""Trace context (W3C): which trace a request belongs to. Pure.

The context travels in the headers of a call, as `traceparent`. Dialects with room for headers carry
it; between peers of one dialect a body passes unchanged. A job without a context has a trace of its
own, derived from its id, so every process derives the same one.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from dragoman.model.value import value

HEADER: Final = "traceparent"
_FORM: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


@value
class TraceContext:
    """A trace, the span that caused the request (empty: none), and whether it is sampled."""

    trace: str
    span: str = ""
    is_sampled: bool = True

    def header(self) -> str:
        """Return the context as the header's text."""
        return f"00-{self.trace}-{self.span}-{'01' if self.is_sampled else '00'}"


def read_trace(headers: Mapping[str, str], job: str) -> TraceContext:
    """Return the context of a request; an absent or broken one is derived from the job's id."""
    text = next((t for name, t in headers.items() if name.lower() == HEADER), "")
    found = _FORM.fullmatch(text.strip().lower())
    if found is None or found[1] == _NO_TRACE or found[2] == _NO_SPAN or text.startswith("ff"):
        return TraceContext(sha256(f"trace {job}".encode()).hexdigest()[:32])
    return TraceContext(found[1], found[2], bool(int(found[3], 16) & 1))


def span_id(job: str, what: str) -> str:
    """Return the id of a span of a job: the same in every process."""
    return sha256(f"{what} {job}".encode()).hexdigest()[:16]
