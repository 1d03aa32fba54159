"""The content of DCP bodies: data parts, which the protocol leaves open. See `dialects.parts`.

A body is the tail of a DCP message: metadata parts, an empty part, data parts. Of the metadata the
codec reads and writes the headers of a call, in a note. DagBox's own services send raw parts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dragoman.dialects import parts
from dragoman.dialects.dcp.notes import request_note
from dragoman.dialects.dcp.wire import Tail, data_of
from dragoman.dialects.notes import write_note
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable

NAME: Final = "dcp"


class DcpBodyCodec:
    """Converts content to DCP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Decode a request."""
        call = parts.read_call(data_of(_tail(body)))
        headers = _headers(body.parts)
        return replace(call, headers=headers) if headers else call

    def write_call(self, call: Call) -> Body:
        """Encode a request."""
        note = (write_note({"headers": dict(call.headers)}),) if call.headers else ()
        return Body(NAME, (*note, b"", *parts.call_parts(call)))

    def read_answer(self, body: Body) -> Answer:
        """Decode a result."""
        return parts.read_answer(data_of(_tail(body)))

    def write_answer(self, answer: Answer) -> Body:
        """Encode a result."""
        return Body(NAME, (b"", *parts.answer_parts(answer)))


def _headers(tail: Tail) -> Mapping[str, str]:
    """Return the headers in a request's note; what are no headers does not count."""
    found = (request_note(tail) or {}).get("headers")
    if not isinstance(found, dict):
        return {}
    return {name: text for name, text in found.items() if isinstance(text, str)}


def _tail(body: Body) -> Tail:
    if b"" not in body.parts:
        raise Unmappable("a DCP body without its empty delimiter part")
    return body.parts
