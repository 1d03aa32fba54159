"""A compute node's side of log streams: who follows which execution, and whether they still do.

Lines of a running execution are kept, bounded, for a consumer that comes later. A request for an
execution that is not here yet is parked for a moment, because it may overtake the work itself.
"""

from collections.abc import Callable
from typing import Any, Final

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
        self._lines: dict[str, logs.Lines] = {}
        #: Stream id -> stream.
        self._streams: dict[str, _LogStream] = {}
        self._parked: dict[str, tuple[_LogStream, float]] = {}
        self._beat_at = 0.0
        #: Token -> (consumer, when it is too late for its answer).
        self._asked: dict[str, tuple[str, float]] = {}
        self._count = 0

    # --- consumers ------------------------------------------------------------------------------

    def asked(self, body: bytes, reply: str, now: float) -> list[Frames]:
        """Take a request for the logs of an execution."""
        if not reply:
            return []
        try:
            stream = _LogStream(logs.read_request(body), reply)
        except MalformedMessage as error:
            return [_close(reply, logs.BAD_REQUEST, str(error))]
        held = self._find(stream.request.execution)
        if held is not None:
            return self._serve(stream, now, held.is_over)
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
            self._beat_at = now + self._settings.log_beat_interval
        self._streams[request.stream] = stream
        self._of(request.execution).followers[request.stream] = stream.reply
        return out

    def _of(self, execution: str) -> logs.Lines:
        lines = self._lines.get(execution)
        if lines is None:
            lines = self._lines[execution] = logs.Lines(self._settings.log_lines)
        return lines

    # --- output ---------------------------------------------------------------------------------

    def begun(self, word: WorkerNotice, now: float) -> list[Frames]:
        """Serve who asked before the work was here; end the streams of what is stopped."""
        if isinstance(word, Stop):
            return self.ended(word.ticket)
        if not isinstance(word, Assigned):
            return []
        waiting = [s for s, _ in self._parked.values() if s.request.execution == word.ticket]
        out: list[Frames] = []
        for stream in waiting:
            del self._parked[stream.request.stream]
            out += self._serve(stream, now, False)
        return out

    def progress(self, execution: str, event: Any) -> list[Frames]:
        """Send a report to all who follow."""
        return self._emit(execution, logs.progress_line(to_jsonable(event)))

    def chunk(self, execution: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream to all who follow."""
        return self._emit(execution, logs.chunk_line(data))

    def _emit(self, execution: str, line: logs.Line) -> list[Frames]:
        held = self._find(execution)
        if held is None or held.is_over:
            return []
        lines = self._of(execution)
        lines.kept.append(line)
        return [_line(reply, line) for reply in lines.followers.values()]

    def ended(self, execution: str) -> list[Frames]:
        """End the streams of an execution that is over."""
        lines = self._lines.pop(execution, None)
        if lines is None:
            return []
        for stream in lines.followers:
            self._streams.pop(stream, None)
        return [_close(reply, logs.NORMAL, "") for reply in lines.followers.values()]

    def close_all(self) -> list[Frames]:
        """End every stream: the node goes away."""
        out = [_close(s.reply, logs.GOING_AWAY, "") for s in self._streams.values()]
        self._streams.clear()
        self._lines.clear()
        return out

    # --- liveness of consumers ------------------------------------------------------------------

    def tick(self, now: float) -> list[Frames]:
        """Ask consumers what they still want; give up on those that do not answer."""
        for token in [t for t, (_, until) in self._asked.items() if now >= until]:
            self._drop_consumer(self._asked.pop(token)[0])
        overdue = [s for s, until in self._parked.values() if now >= until]
        out: list[Frames] = []
        for stream in overdue:
            del self._parked[stream.request.stream]
            out.append(_close(stream.reply, logs.BAD_REQUEST, "no such execution"))
        if self._streams and now >= self._beat_at:
            self._beat_at = now + self._settings.log_beat_interval
            out += self._questions(now)
        return out

    def _questions(self, now: float) -> list[Frames]:
        by_consumer: dict[str, list[_LogStream]] = {}
        for stream in self._streams.values():
            by_consumer.setdefault(stream.request.consumer, []).append(stream)
        out: list[Frames] = []
        for consumer, streams in by_consumer.items():
            self._count += 1
            token = f"b{self._count}"
            self._asked[token] = (consumer, now + self._settings.log_beat_timeout)
            body = logs.write_active({self._subject: [s.request.stream for s in streams]})
            subject = streams[0].request.beat_subject
            out.append([subject.encode(), body, b"", f"{self._inbox}.{token}".encode()])
        return out

    def answered(self, token: str, body: bytes) -> list[Frames]:
        """Drop the streams that a consumer does not want any more."""
        found = self._asked.pop(token, None)
        if found is None:
            return []
        try:
            unwanted = logs.read_unwanted(body)
        except MalformedMessage:
            self._drop_consumer(found[0])
            return []
        for streams in unwanted.values():
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


def _line(subject: str, line: logs.Line) -> Frames:
    return [subject.encode(), logs.write_line(line), b"", b""]


def _close(subject: str, code: int, text: str) -> Frames:
    return [subject.encode(), logs.write_close(logs.Close(code, text)), b"", b""]
