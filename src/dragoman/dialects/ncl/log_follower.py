"""The orchestrator follows the logs of running executions and passes them on as progress.

Best effort beside the data plane: a line that is lost is lost, the result never is. A stream is
asked for when the node has acked what makes the execution run; Dragoman's own workers are asked
along with the work, because they keep a request until the execution is there.
"""

from collections import deque
from hashlib import sha256

from dragoman.core.events import Event, ReplyKind
from dragoman.dialects.base import Frames, MalformedMessage, Send
from dragoman.dialects.ncl import logs
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.executions import Executions, LiveExecution
from dragoman.dialects.ncl.nodes import SLOTS_LABEL, Node
from dragoman.dialects.ncl.wire import logs_subject
from dragoman.model.content import Answer

Told = list[Event | Send]


class LogFollower:
    """All log streams of one orchestrator."""

    def __init__(self, token: str, executions: Executions) -> None:
        self._inbox = f"{logs.STREAM_INBOX}.{token}"
        self._beats = f"{logs.BEAT_INBOX}.{self._inbox}"
        self._executions = executions
        self._codec = NclBodyCodec()
        #: Stream -> execution.
        self._streams: dict[str, str] = {}
        #: Node -> (sequence that has to be acked first, execution).
        self._wanted: dict[str, deque[tuple[int, str]]] = {}

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """Where lines and producers' questions arrive."""
        return f"{self._inbox}.*", self._beats

    def owns(self, subject: str) -> bool:
        """Whether a message on this subject is about logs."""
        return subject == self._beats or subject.startswith(self._inbox + ".")

    def want(self, node: Node, execution: LiveExecution, seq: int) -> None:
        """Follow an execution as soon as the node has acked `seq`."""
        if not execution.is_followed:
            execution.is_followed = True
            self._wanted.setdefault(node.id, deque()).append((seq, execution.id))

    def begin(self, node: Node, acked: int) -> Told:
        """Ask for the logs of what has begun with this ack."""
        wanted = self._wanted.get(node.id)
        told: Told = []
        while wanted and wanted[0][0] <= acked:
            _, name = wanted.popleft()
            if name in self._executions.live:
                told.append(self._ask(node, name))
        if wanted is not None and not wanted:
            del self._wanted[node.id]
        return told

    def begin_ours(self, node: Node) -> Told:
        """Ask one of our own workers at once."""
        return self.begin(node, node.publisher.last) if is_ours(node) else []

    def _ask(self, node: Node, name: str) -> Send:
        stream = sha256(name.encode()).hexdigest()[:8]
        self._streams[stream] = name
        request = logs.LogRequest(name, node.id, stream, self._inbox + ".", self._beats)
        reply = f"{self._inbox}.{stream}".encode()
        return Send(logs_subject(node.id).encode(), [logs.write_request(request), b"", reply])

    def receive(self, subject: str, frames: Frames) -> Told:
        """Take a line, a close, or a producer's question."""
        if subject == self._beats:
            return self._wanted_still(frames)
        stream = subject.rpartition(".")[2]
        name = self._streams.get(stream)
        execution = self._executions.live.get(name or "")
        if not frames[0]:
            # Nobody listens for log requests there; the work goes on without.
            self._streams.pop(stream, None)
            return []
        found = logs.read_stream(frames[0])
        if isinstance(found, logs.Close):
            self._streams.pop(stream, None)
            return []
        if execution is None:
            self._streams.pop(stream, None)
            return []
        return [self._progress(execution, found)]

    def _progress(self, execution: LiveExecution, line: logs.Line) -> Event:
        event, piece = logs.read_line(line)
        if piece is not None:
            return execution.reply(ReplyKind.CHUNK, self._codec.write_answer(Answer(raw=piece)))
        return execution.reply(ReplyKind.PROGRESS, self._codec.write_answer(Answer(value=event)))

    def _wanted_still(self, frames: Frames) -> Told:
        try:
            reply = frames[2].decode()
        except UnicodeDecodeError:
            reply = ""
        if not reply:
            raise MalformedMessage("a question about log streams without a reply subject")
        unwanted = {
            subject: gone
            for subject, streams in logs.read_active(frames[0]).items()
            if (gone := [s for s in streams if not self._is_live(s)])
        }
        return [Send(reply.encode(), [logs.write_unwanted(unwanted), b"", b""])]

    def _is_live(self, stream: str) -> bool:
        return self._streams.get(stream, "") in self._executions.live


def is_ours(node: Node) -> bool:
    """Whether a node is one of Dragoman's own workers, which always announce their slots."""
    return SLOTS_LABEL in (node.info.Labels or {})
