"""HTTP exchanges of our own peers, as frames: what a side wants asked, and what came back.

A request is tag, lane, mode, method, target, header lines, body. Requests of one lane are made one
after the other, in order; those without a lane at once. An answer is tag, status, body; a stream
yields tag, `open` whenever it begins, and tag, `event`, name, data.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from dragoman.dialects.base import Frames
from dragoman.dialects.http.body_codec import write
from dragoman.model.value import value

#: One answer; a stream; a stream before which nothing else is asked; the last thing ever asked.
ONCE, STREAM, FIRST, LAST = b"once", b"stream", b"first", b"last"
OPEN, EVENT = b"open", b"event"
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"


@value
class Response:
    """What came back under a tag: a status, or an event of a stream (status 0)."""

    tag: str
    status: int
    body: bytes
    #: Of a stream: `open`, or the event's name.
    event: str = ""

    def json(self) -> dict[str, Any]:
        """Return the body as an object; an empty one if it is none."""
        try:
            said = msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}
        return said if isinstance(said, dict) else {}


def request(
    tag: str,
    method: str,
    path: str,
    said: Any = None,
    *,
    lane: str = "",
    mode: bytes = ONCE,
    raw: bytes | None = None,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Frames:
    """Write a request. Raises `Unmappable` for content without a form in JSON."""
    lines = dict(headers or {})
    body = b""
    if raw is not None:
        lines["content-type"], body = BYTES, bytes(raw)
    elif said is not None:
        lines["content-type"], body = JSON, write(said)
    target = path + (f"?{urlencode(query, doseq=True)}" if query else "")
    head = "\n".join(f"{name}: {text}" for name, text in lines.items())
    return [
        *(tag.encode(), lane.encode(), mode, method.encode()),
        *(target.encode(), head.encode(), body),
    ]


def readdress(frames: Frames, path: str) -> Frames:
    """Send a request somewhere else than it was written for."""
    return [*frames[:4], path.encode(), *frames[5:]]


def read(frames: Frames) -> Response | None:
    """Read what came back; None if it cannot be read."""
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
    """Write a name as one segment of a path."""
    return quote(text, safe="")
