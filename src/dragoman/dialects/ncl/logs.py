"""Log streaming: bare JSON from a node to whoever asked, kept alive by the producer's questions.

The consumer (orchestrator) asks on the node's log subject with a stream inbox as reply. The
producer (node) sends lines and a close there, and asks every few seconds which streams are still
wanted.
A Dragoman worker sends progress and pieces of streams as lines of one JSON object each, so that
they cross a wire that has no message for them.
"""

from base64 import b64decode, b64encode
from collections import deque
from typing import Any, Final

import msgspec

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.envelope import BAD_JSON, dump
from dragoman.model.value import value

STREAM_INBOX: Final = "_SINBOX"
BEAT_INBOX: Final = "_HEARTBEAT"

STDOUT: Final = 1
STDERR: Final = 2

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
BAD_DATA: Final = 1003
ABNORMAL: Final = 1006
BAD_REQUEST: Final = 4000
INTERNAL: Final = 5000

_DATA: Final = 1
_CLOSE: Final = 2


class _Asked(msgspec.Struct, rename="pascal"):
    execution_id: str = msgspec.field(default="", name="ExecutionID")
    node_id: str = msgspec.field(default="", name="NodeID")
    tail: bool = False
    follow: bool = False


class _Request(msgspec.Struct, rename="camel"):
    consumer_id: str = ""
    stream_id: str = ""
    heart_beat_request_sub: str = ""
    body: str = ""


class _Line(msgspec.Struct):
    Type: int = STDOUT
    Line: str = ""


class _StreamItem(msgspec.Struct, omit_defaults=True):
    value: _Line | None = None
    error: str = ""


class _CloseError(msgspec.Struct):
    Code: int = NORMAL
    Text: str = ""


class _Frame(msgspec.Struct, rename="camel", omit_defaults=True):
    type: int
    data: str = ""
    close_error: _CloseError | None = None


class _Active(msgspec.Struct):
    ActiveStreamIds: dict[str, list[str]] | None = None


class _NonActive(msgspec.Struct):
    NonActiveStreamIds: dict[str, list[str]] | None = None


@value
class LogRequest:
    """A consumer wants the output of an execution."""

    execution: str
    node: str
    stream: str
    consumer: str
    beat_subject: str
    is_tail: bool = False
    is_following: bool = True


@value
class Line:
    """One line of output; with an error instead of it, what went wrong."""

    text: str
    stream: int = STDOUT
    error: str = ""


@value
class Close:
    """A stream ended."""

    code: int
    text: str = ""


def write_request(request: LogRequest) -> bytes:
    """Write what a consumer sends to a node."""
    asked = _Asked(request.execution, request.node, request.is_tail, request.is_following)
    body = b64encode(dump(asked)).decode()
    return dump(_Request(request.consumer, request.stream, request.beat_subject, body))


def read_request(data: bytes) -> LogRequest:
    """Read what a consumer sent."""
    try:
        outer = msgspec.json.decode(data, type=_Request)
        asked = msgspec.json.decode(b64decode(outer.body, validate=True), type=_Asked)
    except BAD_JSON as error:
        raise MalformedMessage(f"not a request for logs: {error}") from None
    return LogRequest(
        asked.execution_id,
        asked.node_id,
        outer.stream_id,
        outer.consumer_id,
        outer.heart_beat_request_sub,
        asked.tail,
        asked.follow,
    )


def write_line(line: Line) -> bytes:
    """Write one line as the producer sends it."""
    item = (
        _StreamItem(error=line.error) if line.error else _StreamItem(_Line(line.stream, line.text))
    )
    return dump(_Frame(_DATA, b64encode(dump(item)).decode()))


def write_close(close: Close) -> bytes:
    """Write the end of a stream."""
    return dump(_Frame(_CLOSE, close_error=_CloseError(close.code, close.text)))


def read_stream(data: bytes) -> Line | Close:
    """Read what a producer sent."""
    try:
        frame = msgspec.json.decode(data, type=_Frame)
        if frame.type == _CLOSE:
            error = frame.close_error or _CloseError()
            return Close(error.Code, error.Text)
        item = msgspec.json.decode(b64decode(frame.data, validate=True), type=_StreamItem)
    except BAD_JSON as error:
        raise MalformedMessage(f"not a piece of a log stream: {error}") from None
    line = item.value or _Line()
    return Line(line.Line, line.Type, item.error)


def write_active(streams: dict[str, list[str]]) -> bytes:
    """Write a producer's question: which of these, by request subject, are still wanted?"""
    return dump(_Active(streams))


def read_active(data: bytes) -> dict[str, list[str]]:
    """Read a producer's question."""
    try:
        return msgspec.json.decode(data, type=_Active).ActiveStreamIds or {}
    except BAD_JSON as error:
        raise MalformedMessage(f"not a question about log streams: {error}") from None


def write_unwanted(streams: dict[str, list[str]]) -> bytes:
    """Write the consumer's answer: these are not."""
    return dump(_NonActive(streams))


def read_unwanted(data: bytes) -> dict[str, list[str]]:
    """Read the consumer's answer."""
    try:
        return msgspec.json.decode(data, type=_NonActive).NonActiveStreamIds or {}
    except BAD_JSON as error:
        raise MalformedMessage(f"not an answer about log streams: {error}") from None


# --- what a Dragoman worker puts into lines -----------------------------------------------------


def progress_line(event: Any) -> Line:
    """Write a report as a line."""
    return Line(dump({"progress": event}).decode() + "\n")


def chunk_line(data: bytes) -> Line:
    """Write a piece of a stream as a line."""
    return Line(dump({"chunk": b64encode(data).decode()}).decode() + "\n")


def read_line(line: Line) -> tuple[Any, bytes | None]:
    """Read a line as (event, None) or (None, piece); other nodes' lines are events of their own."""
    if line.stream == STDOUT and line.text.startswith("{"):
        try:
            found = msgspec.json.decode(line.text.encode(), type=dict[str, Any])
            if set(found) == {"progress"}:
                return found["progress"], None
            if set(found) == {"chunk"}:
                return None, b64decode(found["chunk"], validate=True)
        except (*BAD_JSON, TypeError):
            pass
    name = "stderr" if line.stream == STDERR else "stdout"
    return ({"error": line.error} if line.error else {name: line.text}), None


class Lines:
    """The output of one execution so far, bounded, and who follows it."""

    def __init__(self, limit: int) -> None:
        self.kept: deque[Line] = deque(maxlen=limit)
        #: Reply subject of each stream that follows.
        self.followers: dict[str, str] = {}
