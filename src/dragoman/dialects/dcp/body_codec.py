"""The content of DCP bodies: data parts, which the protocol leaves open. See `dialects.parts`.

A body is the tail of a DCP message: metadata parts, an empty part, data parts. The codec ignores
metadata. DagBox's own services send raw parts.
"""

from typing import Final

from dragoman.dialects import parts
from dragoman.dialects.dcp.wire import Tail, data_of
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable

NAME: Final = "dcp"


class DcpBodyCodec:
    """Converts content to DCP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Decode a request."""
        return parts.read_call(data_of(_tail(body)))

    def write_call(self, call: Call) -> Body:
        """Encode a request."""
        return Body(NAME, (b"", *parts.call_parts(call)))

    def read_answer(self, body: Body) -> Answer:
        """Decode a result."""
        return parts.read_answer(data_of(_tail(body)))

    def write_answer(self, answer: Answer) -> Body:
        """Encode a result."""
        return Body(NAME, (b"", *parts.answer_parts(answer)))


def _tail(body: Body) -> Tail:
    if b"" not in body.parts:
        raise Unmappable("a DCP body without its empty delimiter part")
    return body.parts
