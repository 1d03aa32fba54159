"""A compute node's log streams: which consumers follow which execution.

The node keeps the last lines of an execution for a consumer that comes later. A log request
may overtake the work it is about, so a request for an unknown execution waits a few seconds.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.json_values import to_jsonable
from dragoman.dialects.ncl import logs
from dragoman.dialects.ncl.settings import ComputeSettings
from dragoman.dialects.ncl.store import StoredExecution
from dragoman.dialects.ncl.wire import logs_subject
from dragoman.dialects.peer_sides import Assigned, Stop, WorkerNotice
from dragoman.model.value import value

_PARKED_FOR: Final = 5.0
_MAX_PARKED: Final = 1000
#: Characters of printed text after which a batch is sent.
_BATCH: Final = 4096
#: Bytes or characters of one line. Escapes and base64 make at most eight times as many bytes.
_PIECE: Final = 64 * 1024


@value
class _LogStream:
    """One consumer of one execution."""

    request: logs.LogRequest
    reply: str


class LogProducer:
    """All log streams of one node."""

    def __init__(
        self,
        node: str,
        inbox: str,
        settings: ComputeSettings,
        find: Callable[[str], StoredExecution | None],
    ) -> None:
        self._subject = logs_subject(node)
        self._inbox = inbox
        self._settings = settings
        self._find = find
        self._lines: dict[str, logs.ExecutionLog] = {}
        #: Ended executions whose lines are kept, oldest first.
        self._ended: OrderedDict[str, None] = OrderedDict()
        #: Printed text that is not sent yet, by execution.
        self._unsent: dict[str, logs.LogLine] = {}
        #: Stream id -> stream.
        self._streams: dict[str, _LogStream] = {}
        self._parked: dict[str, tuple[_LogStream, float]] = {}
        self._heartbeat_at = 0.0
        #: Token of a heartbeat -> (consumer, time limit of its answer).
        self._unanswered: dict[str, tuple[str, float]] = {}
        self._count = 0

    # --- consumers ------------------------------------------------------------------------------

    def receive_request(self, body: bytes, reply: str, now: float) -> list[Frames]:
        """Handle a log request."""
        if not reply:
            return []
        try:
            stream = _LogStream(logs.read_request(body), reply)
        except MalformedMessage as error:
            return [_close(reply, logs.BAD_REQUEST, str(error))]
        stored = self._find(stream.request.execution)
        if stored is not None:
            return self._serve(stream, now, stored.is_over)
        if len(self._parked) >= _MAX_PARKED:
            return [_close(reply, logs.BAD_REQUEST, "no such execution")]
        self._parked[stream.request.stream] = (stream, now + _PARKED_FOR)
        return []

    def _serve(self, stream: _LogStream, now: float, is_over: bool) -> list[Frames]:
        request = stream.request
        lines = self._lines.get(request.execution)
        kept = [] if request.is_tail or lines is None else list(lines.kept)
        out = [_line(stream.reply, line) for line in kept]
        if is_over or not request.is_following:
            return [*out, _close(stream.reply, logs.NORMAL, "")]
        if not self._streams:
            self._heartbeat_at = now + self._settings.log_beat_interval
        self._streams[request.stream] = stream
        self._buffer_of(request.execution).followers[request.stream] = stream.reply
        return out

    def _buffer_of(self, execution: str) -> logs.ExecutionLog:
        lines = self._lines.get(execution)
        if lines is None:
            lines = self._lines[execution] = logs.ExecutionLog(self._settings.log_lines)
        return lines

    # --- output ---------------------------------------------------------------------------------

    def on_notice(self, notice: WorkerNotice, now: float) -> list[Frames]:
        """Start waiting streams of new work; close the streams of stopped work."""
        if isinstance(notice, Stop):
            return self.close_streams(notice.ticket)
        if not isinstance(notice, Assigned):
            return []
        waiting = [s for s, _ in self._parked.values() if s.request.execution == notice.ticket]
        out: list[Frames] = []
        for stream in waiting:
            del self._parked[stream.request.stream]
            out += self._serve(stream, now, False)
        return out

    def progress(self, execution: str, event: object) -> list[Frames]:
        """Send a progress report to all followers."""
        return self._send_line(execution, logs.progress_line(to_jsonable(event)))

    def chunk(self, execution: str, data: bytes) -> list[Frames]:
        """Send a stream chunk to all followers, in pieces that fit into a NATS message."""
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)] or [b""]
        lines = [logs.chunk_line(piece) for piece in pieces]
        return [frames for line in lines for frames in self._send_line(execution, line)]

    def output(self, execution: str, text: str, is_error: bool) -> list[Frames]:
        """Add printed text. It is sent in batches, at the latest by the next `tick`."""
        if not self._is_live(execution):
            return []
        stream = logs.STDERR if is_error else logs.STDOUT
        unsent = self._unsent.get(execution)
        out: list[Frames] = []
        if unsent is not None and unsent.stream != stream:
            out, unsent = self._flush(execution), None
        text = unsent.text + text if unsent is not None else text
        self._unsent[execution] = logs.LogLine(text, stream)
        return [*out, *self._flush(execution)] if len(text) >= _BATCH else out

    def _is_live(self, execution: str) -> bool:
        stored = self._find(execution)
        return stored is not None and not stored.is_over

    def _send_line(self, execution: str, line: logs.LogLine) -> list[Frames]:
        if not self._is_live(execution):
            return []
        return [*self._flush(execution), *self._emit(execution, line)]

    def _flush(self, execution: str) -> list[Frames]:
        unsent = self._unsent.pop(execution, None)
        text = unsent.text if unsent is not None else ""
        pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
        lines = [logs.LogLine(piece, unsent.stream) for piece in pieces] if unsent else []
        return [frames for line in lines for frames in self._emit(execution, line)]

    def _emit(self, execution: str, line: logs.LogLine) -> list[Frames]:
        if len(line.text) > self._settings.max_payload // 4:
            error = f"a report of {len(line.text)} characters exceeds what NATS carries"
            line = logs.LogLine("", error=error)
        lines = self._buffer_of(execution)
        lines.kept.append(line)
        return [_line(reply, line) for reply in lines.followers.values()]

    def close_streams(self, execution: str) -> list[Frames]:
        """Close the streams of an ended execution; keep its lines for later consumers."""
        out = self._flush(execution)
        lines = self._lines.get(execution)
        if lines is None:
            return out
        followers = dict(lines.followers)
        lines.followers.clear()
        for stream in followers:
            self._streams.pop(stream, None)
        self._ended[execution] = None
        while len(self._ended) > self._settings.log_executions:
            del self._lines[self._ended.popitem(last=False)[0]]
        return [*out, *(_close(reply, logs.NORMAL, "") for reply in followers.values())]

    def close_all(self) -> list[Frames]:
        """Close every stream: the node shuts down."""
        out = [_close(s.reply, logs.GOING_AWAY, "") for s in self._streams.values()]
        self._streams.clear()
        self._lines.clear()
        self._ended.clear()
        self._unsent.clear()
        return out

    # --- liveness of consumers ------------------------------------------------------------------

    def tick(self, now: float) -> list[Frames]:
        """Send stream heartbeats; drop consumers that did not answer the last one."""
        for token in [t for t, (_, until) in self._unanswered.items() if now >= until]:
            self._drop_consumer(self._unanswered.pop(token)[0])
        overdue = [s for s, until in self._parked.values() if now >= until]
        out = [frames for name in list(self._unsent) for frames in self._flush(name)]
        for stream in overdue:
            del self._parked[stream.request.stream]
            out.append(_close(stream.reply, logs.BAD_REQUEST, "no such execution"))
        if self._streams and now >= self._heartbeat_at:
            self._heartbeat_at = now + self._settings.log_beat_interval
            out += self._heartbeats(now)
        return out

    def _heartbeats(self, now: float) -> list[Frames]:
        by_consumer: dict[str, list[_LogStream]] = {}
        for stream in self._streams.values():
            by_consumer.setdefault(stream.request.consumer, []).append(stream)
        out: list[Frames] = []
        for consumer, streams in by_consumer.items():
            self._count += 1
            token = f"b{self._count}"
            self._unanswered[token] = (consumer, now + self._settings.log_beat_timeout)
            body = logs.write_active({self._subject: [s.request.stream for s in streams]})
            subject = streams[0].request.heartbeat_subject
            out.append([subject.encode(), body, b"", f"{self._inbox}.{token}".encode()])
        return out

    def receive_heartbeat_reply(self, token: str, body: bytes) -> list[Frames]:
        """Drop the streams that a consumer no longer wants."""
        found = self._unanswered.pop(token, None)
        if found is None:
            return []
        try:
            non_active = logs.read_non_active(body)
        except MalformedMessage:
            self._drop_consumer(found[0])
            return []
        for streams in non_active.values():
            for stream in streams:
                self._drop(stream)
        return []

    def _drop_consumer(self, consumer: str) -> None:
        for name in [n for n, s in self._streams.items() if s.request.consumer == consumer]:
            self._drop(name)

    def _drop(self, name: str) -> None:
        stream = self._streams.pop(name, None)
        lines = self._lines.get(stream.request.execution) if stream is not None else None
        if lines is not None:
            lines.followers.pop(name, None)


def _line(subject: str, line: logs.LogLine) -> Frames:
    return [subject.encode(), logs.write_line(line), b"", b""]


def _close(subject: str, code: int, text: str) -> Frames:
    return [subject.encode(), logs.write_close(logs.Close(code, text)), b"", b""]
