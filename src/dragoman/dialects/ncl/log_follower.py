"""Follows the logs of running executions and passes their lines on as progress.

Best effort: a log line may be lost, a result is not. The orchestrator requests a stream after the
node has acked the message that starts the execution. Dragoman's own workers get the request
together with the work, because they hold a request until the execution arrives.
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

Outputs = list[Event | Send]


class LogFollower:
    """All log streams of one orchestrator."""

    def __init__(self, token: str, executions: Executions) -> None:
        self._inbox = f"{logs.STREAM_INBOX}.{token}"
        self._heartbeat_subject = f"{logs.HEARTBEAT_INBOX}.{self._inbox}"
        self._executions = executions
        self._codec = NclBodyCodec()
        #: Stream -> execution.
        self._streams: dict[str, str] = {}
        #: Node -> (sequence to be acked first, execution).
        self._wanted: dict[str, deque[tuple[int, str]]] = {}

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The subjects of log lines and stream heartbeats."""
        return f"{self._inbox}.*", self._heartbeat_subject

    def owns(self, subject: str) -> bool:
        """Whether this subject belongs to log streaming."""
        return subject == self._heartbeat_subject or subject.startswith(self._inbox + ".")

    def follow(self, node: Node, execution: LiveExecution, seq: int) -> None:
        """Request the logs of an execution after the node has acked `seq`."""
        if not execution.is_followed:
            execution.is_followed = True
            self._wanted.setdefault(node.id, deque()).append((seq, execution.id))

    def request_acked(self, node: Node, acked: int) -> Outputs:
        """Request the logs of every execution that this ack starts."""
        wanted = self._wanted.get(node.id)
        outputs: Outputs = []
        while wanted and wanted[0][0] <= acked:
            _, name = wanted.popleft()
            if name in self._executions.live:
                outputs.append(self._request(node, name))
        if wanted is not None and not wanted:
            del self._wanted[node.id]
        return outputs

    def request_from_own_worker(self, node: Node) -> Outputs:
        """Request logs without waiting for the ack, if the node is our own worker."""
        return self.request_acked(node, node.publisher.last) if is_own_worker(node) else []

    def _request(self, node: Node, name: str) -> Send:
        stream = sha256(name.encode()).hexdigest()[:8]
        self._streams[stream] = name
        request = logs.LogRequest(name, node.id, stream, self._inbox + ".", self._heartbeat_subject)
        reply = f"{self._inbox}.{stream}".encode()
        return Send(logs_subject(node.id).encode(), [logs.write_request(request), b"", reply])

    def receive(self, subject: str, frames: Frames) -> Outputs:
        """Handle a log line, a close, or a stream heartbeat."""
        if subject == self._heartbeat_subject:
            return self._answer_heartbeat(frames)
        stream = subject.rpartition(".")[2]
        name = self._streams.get(stream)
        execution = self._executions.live.get(name or "")
        if not frames[0]:
            # The node does not serve logs. The execution runs on without them.
            self._streams.pop(stream, None)
            return []
        message = logs.read_stream(frames[0])
        if isinstance(message, logs.Close):
            self._streams.pop(stream, None)
            return []
        if execution is None:
            self._streams.pop(stream, None)
            return []
        return [self._progress(execution, message)]

    def _progress(self, execution: LiveExecution, line: logs.LogLine) -> Event:
        event, piece = logs.read_line(line)
        if piece is not None:
            return execution.reply(ReplyKind.CHUNK, self._codec.write_answer(Answer(raw=piece)))
        return execution.reply(ReplyKind.PROGRESS, self._codec.write_answer(Answer(value=event)))

    def _answer_heartbeat(self, frames: Frames) -> Outputs:
        try:
            reply = frames[2].decode()
        except UnicodeDecodeError:
            reply = ""
        if not reply:
            raise MalformedMessage("log stream heartbeat without a reply subject")
        non_active = {
            subject: ended
            for subject, streams in logs.read_active(frames[0]).items()
            if (ended := [s for s in streams if not self._is_live(s)])
        }
        return [Send(reply.encode(), [logs.write_non_active(non_active), b"", b""])]

    def _is_live(self, stream: str) -> bool:
        return self._streams.get(stream, "") in self._executions.live


def is_own_worker(node: Node) -> bool:
    """Whether a node is a Dragoman worker: only those announce slots."""
    return SLOTS_LABEL in (node.info.Labels or {})
