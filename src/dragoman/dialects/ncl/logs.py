"""The codec of log streaming: bare JSON from a node to a consumer, with heartbeats.

The consumer (orchestrator) sends a request to the node's log subject with a stream inbox as reply.
The producer (node) sends lines and a close there. Every few seconds it asks the consumer which
streams are still active. NCL has no message for progress or stream chunks. A Dragoman worker
sends them as lines of one JSON object each.
"""

from base64 import b64decode, b64encode
from collections import deque
from typing import Any, Final

import msgspec

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.envelope import BAD_JSON, dump
from dragoman.model.value import value

STREAM_INBOX: Final = "_SINBOX"
HEARTBEAT_INBOX: Final = "_HEARTBEAT"

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


class _LogQuery(msgspec.Struct, rename="pascal"):
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
    """A consumer requests the output of an execution."""

    execution: str
    node: str
    stream: str
    consumer: str
    heartbeat_subject: str
    is_tail: bool = False
    is_following: bool = True


@value
class LogLine:
    """One line of output, or an error instead."""

    text: str
    stream: int = STDOUT
    error: str = ""


@value
class Close:
    """The end of a stream."""

    code: int
    text: str = ""


def write_request(request: LogRequest) -> bytes:
    """Write a log request."""
    query = _LogQuery(request.execution, request.node, request.is_tail, request.is_following)
    body = b64encode(dump(query)).decode()
    return dump(_Request(request.consumer, request.stream, request.heartbeat_subject, body))


def read_request(data: bytes) -> LogRequest:
    """Read a log request."""
    try:
        outer = msgspec.json.decode(data, type=_Request)
        query = msgspec.json.decode(b64decode(outer.body, validate=True), type=_LogQuery)
    except BAD_JSON as error:
        raise MalformedMessage(f"not a log request: {error}") from None
    return LogRequest(
        query.execution_id,
        query.node_id,
        outer.stream_id,
        outer.consumer_id,
        outer.heart_beat_request_sub,
        query.tail,
        query.follow,
    )


def write_line(line: LogLine) -> bytes:
    """Write one line."""
    item = (
        _StreamItem(error=line.error) if line.error else _StreamItem(_Line(line.stream, line.text))
    )
    return dump(_Frame(_DATA, b64encode(dump(item)).decode()))


def write_close(close: Close) -> bytes:
    """Write the end of a stream."""
    return dump(_Frame(_CLOSE, close_error=_CloseError(close.code, close.text)))


def read_stream(data: bytes) -> LogLine | Close:
    """Read a line or the end of a stream."""
    try:
        frame = msgspec.json.decode(data, type=_Frame)
        if frame.type == _CLOSE:
            error = frame.close_error or _CloseError()
            return Close(error.Code, error.Text)
        item = msgspec.json.decode(b64decode(frame.data, validate=True), type=_StreamItem)
    except BAD_JSON as error:
        raise MalformedMessage(f"not a log stream message: {error}") from None
    line = item.value or _Line()
    return LogLine(line.Line, line.Type, item.error)


def write_active(streams: dict[str, list[str]]) -> bytes:
    """Write a producer's heartbeat: its active streams by request subject."""
    return dump(_Active(streams))


def read_active(data: bytes) -> dict[str, list[str]]:
    """Read a producer's heartbeat."""
    try:
        return msgspec.json.decode(data, type=_Active).ActiveStreamIds or {}
    except BAD_JSON as error:
        raise MalformedMessage(f"not a log stream heartbeat: {error}") from None


def write_non_active(streams: dict[str, list[str]]) -> bytes:
    """Write the reply to a heartbeat: the streams that are no longer wanted."""
    return dump(_NonActive(streams))


def read_non_active(data: bytes) -> dict[str, list[str]]:
    """Read the reply to a heartbeat."""
    try:
        return msgspec.json.decode(data, type=_NonActive).NonActiveStreamIds or {}
    except BAD_JSON as error:
        raise MalformedMessage(f"not a reply to a log stream heartbeat: {error}") from None


# --- progress and chunks as lines ---------------------------------------------------------------


def progress_line(event: object) -> LogLine:
    """Write a progress report as a line."""
    return LogLine(dump({"progress": event}).decode() + "\n")


def chunk_line(data: bytes) -> LogLine:
    """Write a stream chunk as a line."""
    return LogLine(dump({"chunk": b64encode(data).decode()}).decode() + "\n")


def read_line(line: LogLine) -> tuple[object, bytes | None]:
    """Read a line as (event, None) or (None, chunk). A line of another node is an event."""
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


class ExecutionLog:
    """The last lines of one execution and the streams that follow it."""

    def __init__(self, limit: int) -> None:
        self.kept: deque[LogLine] = deque(maxlen=limit)
        #: Stream id -> reply subject.
        self.followers: dict[str, str] = {}
