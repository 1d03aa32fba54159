"""The log follower: when it requests logs, what it passes on, what it answers."""

from typing import Any

import pytest

from dragoman.core.events import ReplyKind, ReplyReceived
from dragoman.dialects.base import MalformedMessage, Send
from dragoman.dialects.ncl import logs
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.executions import Executions, LiveExecution
from dragoman.dialects.ncl.log_follower import LogFollower, is_own_worker
from dragoman.dialects.ncl.models import COMPLETED, NodeInfo
from dragoman.dialects.ncl.nodes import Node
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.names import JobId, PeerId

INBOX = "_SINBOX.tok"


class Stage:
    def __init__(self, labels: dict[str, str] | None = None) -> None:
        self.executions = Executions(10)
        self.following = LogFollower("tok", self.executions)
        info = NodeInfo("n-1", "Compute", labels)
        self.node = Node("ncl", info, OrchestratorSettings())
        self.execution = LiveExecution(JobId("j1"), PeerId("ncl/n-1"), 1)
        self.executions.add(self.execution)

    def start_stream(self) -> str:
        self.following.follow(self.node, self.execution, 5)
        (send,) = self.following.request_acked(self.node, 5)
        assert isinstance(send, Send)
        return logs.read_request(send.frames[0]).stream

    def hear(self, stream: str, data: bytes) -> list[Any]:
        return self.following.receive(f"{INBOX}.{stream}", [data, b"", b""])


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_logs_are_asked_for_when_the_node_has_the_work(stage: Stage) -> None:
    stage.following.follow(stage.node, stage.execution, 5)
    assert stage.following.request_acked(stage.node, 4) == []
    (send,) = stage.following.request_acked(stage.node, 5)
    assert isinstance(send, Send)
    assert send.address == b"node.compute.n-1.ExecutionLogs/v1"
    request = logs.read_request(send.frames[0])
    assert (request.execution, request.consumer) == (stage.execution.id, INBOX + ".")
    assert send.frames[2].decode() == f"{INBOX}.{request.stream}"
    assert stage.following.request_acked(stage.node, 99) == []


def test_an_execution_is_followed_once(stage: Stage) -> None:
    stage.start_stream()
    stage.following.follow(stage.node, stage.execution, 6)
    assert stage.following.request_acked(stage.node, 6) == []


def test_what_is_over_is_not_followed(stage: Stage) -> None:
    stage.following.follow(stage.node, stage.execution, 5)
    stage.executions.end(stage.execution, COMPLETED)
    assert stage.following.request_acked(stage.node, 5) == []


def test_our_own_workers_are_asked_at_once(stage: Stage) -> None:
    stage.following.follow(stage.node, stage.execution, 5)
    assert stage.following.request_from_own_worker(stage.node) == []
    ours = Stage({"dragoman.slots": "2"})
    ours.node.publisher.last = 5
    ours.following.follow(ours.node, ours.execution, 5)
    assert is_own_worker(ours.node)
    assert len(ours.following.request_from_own_worker(ours.node)) == 1


def test_lines_are_progress_and_pieces_are_chunks(stage: Stage) -> None:
    stream = stage.start_stream()
    (event,) = stage.hear(stream, logs.write_line(logs.LogLine("hello\n")))
    assert isinstance(event, ReplyReceived)
    assert (event.kind, event.attempt) == (ReplyKind.PROGRESS, 1)
    assert NclBodyCodec().read_answer(event.body).value == {"stdout": "hello\n"}
    (chunk,) = stage.hear(stream, logs.write_line(logs.chunk_line(b"x")))
    assert chunk.kind is ReplyKind.CHUNK
    assert NclBodyCodec().read_answer(chunk.body).raw == b"x"


def test_lines_of_what_is_over_go_nowhere(stage: Stage) -> None:
    stream = stage.start_stream()
    stage.executions.end(stage.execution, COMPLETED)
    assert stage.hear(stream, logs.write_line(logs.LogLine("late"))) == []
    assert stage.hear("unknown", logs.write_line(logs.LogLine("whose?"))) == []


def test_a_close_or_no_responder_ends_the_stream(stage: Stage) -> None:
    stream = stage.start_stream()
    assert stage.hear(stream, logs.write_close(logs.Close(logs.NORMAL))) == []
    assert stage.hear(stream, logs.write_line(logs.LogLine("after"))) == []
    other = Stage()
    stream = other.start_stream()
    assert other.hear(stream, b"") == []


def test_nonsense_is_malformed(stage: Stage) -> None:
    with pytest.raises(MalformedMessage):
        stage.hear(stage.start_stream(), b"nonsense")


def test_a_producer_learns_which_streams_are_still_wanted(stage: Stage) -> None:
    stream = stage.start_stream()
    subject, beats = "node.compute.n-1.ExecutionLogs/v1", f"_HEARTBEAT.{INBOX}"
    assert stage.following.owns(beats)
    asked = logs.write_active({subject: [stream, "old"]})
    (send,) = stage.following.receive(beats, [asked, b"", b"_INBOX.q"])
    assert isinstance(send, Send)
    assert send.address == b"_INBOX.q"
    assert logs.read_non_active(send.frames[0]) == {subject: ["old"]}
    stage.executions.end(stage.execution, COMPLETED)
    (send,) = stage.following.receive(beats, [asked, b"", b"_INBOX.q"])
    assert isinstance(send, Send)
    assert logs.read_non_active(send.frames[0]) == {subject: [stream, "old"]}


@pytest.mark.parametrize("frames", [[b"{}", b"", b""], [b"{}", b"", b"\xff"], [b"x", b"", b"r"]])
def test_a_question_that_cannot_be_answered_is_malformed(stage: Stage, frames: list[bytes]) -> None:
    with pytest.raises(MalformedMessage):
        stage.following.receive(f"_HEARTBEAT.{INBOX}", frames)


def test_its_subjects_are_its_own(stage: Stage) -> None:
    assert stage.following.subscriptions == (f"{INBOX}.*", f"_HEARTBEAT.{INBOX}")
    assert stage.following.owns(f"{INBOX}.a")
    assert not stage.following.owns("_SINBOX.other.a")
