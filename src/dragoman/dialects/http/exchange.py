"""HTTP requests and responses of SDK peers, as frames between a side and `transports.http`.

A request is tag, lane, mode, method, target, header lines, body. Requests of one lane are sent one
after the other, in order; those without a lane at once. A response is tag, status, body. A stream
yields tag, `open` whenever it opens, and tag, `event`, name, data.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from dragoman.dialects.base import Frames
from dragoman.dialects.http.body_codec import write
from dragoman.model.value import value

#: One response; a stream; a stream that opens before any other request; the last request.
ONCE, STREAM, FIRST, LAST = b"once", b"stream", b"first", b"last"
OPEN, EVENT = b"open", b"event"
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"


@value
class Response:
    """The response to a tag: a status, or an event of a stream (status 0)."""

    tag: str
    status: int
    body: bytes
    #: Of a stream: `open`, or the name of the event.
    event: str = ""

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object; empty if it is not one."""
        try:
            content = msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}


def request(
    tag: str,
    method: str,
    path: str,
    content: object = None,
    *,
    lane: str = "",
    mode: bytes = ONCE,
    raw: bytes | None = None,
    encoded: bytes = b"",
    query: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Frames:
    """Write a request. Raises `Unmappable` if the content has no JSON form.

    `encoded` is content that is JSON already.
    """
    lines = dict(headers or {})
    body = b""
    if raw is not None:
        lines["content-type"], body = BYTES, bytes(raw)
    elif encoded:
        lines["content-type"], body = JSON, encoded
    elif content is not None:
        lines["content-type"], body = JSON, write(content)
    target = path + (f"?{urlencode(query, doseq=True)}" if query else "")
    head = "\n".join(f"{name}: {text}" for name, text in lines.items())
    return [
        *(tag.encode(), lane.encode(), mode, method.encode()),
        *(target.encode(), head.encode(), body),
    ]


def with_path(frames: Frames, path: str) -> Frames:
    """Return a request with another path."""
    return [*frames[:4], path.encode(), *frames[5:]]


def read(frames: Frames) -> Response | None:
    """Read a response; None if it is unreadable."""
    try:
        tag, what = frames[0].decode(), frames[1]
        if what == OPEN:
            return Response(tag, 0, b"", "open")
        if what == EVENT:
            return Response(tag, 0, frames[3], frames[2].decode())
        return Response(tag, int(what), frames[2])
    except (IndexError, ValueError):
        return None


def segment(text: str) -> str:
    """Quote a name as one segment of a path."""
    return quote(text, safe="")
