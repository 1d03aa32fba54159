"""A captured conversation of real peers, replayed against each of our sides.

The real node's messages go to our orchestrator, the real orchestrator's messages to our node. The
test compares our decoded answers with the real ones. It maps or ignores ids and times that each
side makes up.
"""

from itertools import count
from typing import Any

from tests.dialects.ncl_vectors import CAPTURE, body

from dragoman.core.effects import SendWork
from dragoman.core.events import BeatReceived, PeerLeft, ReplyReceived, WorkerJoined
from dragoman.dialects.base import Send
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.broker_side import NclBrokerSide
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.executions import execution_id
from dragoman.dialects.ncl.messages import (
    AskForBid,
    BidResult,
    ComputeError,
    HandshakeRequest,
    HandshakeResponse,
    HeartbeatRequest,
    RunResult,
    ShutdownNoticeRequest,
)
from dragoman.dialects.ncl.models import WireObject
from dragoman.dialects.ncl.settings import ComputeSettings, OrchestratorSettings
from dragoman.dialects.ncl.worker_side import NclWorkerSide
from dragoman.dialects.peer_sides import Assigned, SendNow, Stop
from dragoman.model.capacity import Capacity
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName

NODE = "n-compute-1"
PEER = PeerId(f"ncl/{NODE}")


def name_of(vector: dict[str, Any]) -> str:
    return str(vector["label"].partition(".")[2])


# --- our orchestrator, a real node --------------------------------------------------------------


class Orchestrator:
    """Our orchestrator, fed with the real node's messages."""

    def __init__(self) -> None:
        settings = OrchestratorSettings(follow_logs=False)
        self.side = NclBrokerSide(
            codecs={"ncl": NclBodyCodec()}, ids=lambda: "x", settings=settings
        )
        self.events: list[Any] = []
        #: Captured execution -> ours.
        self.ours: dict[str, str] = {}
        self.sent: list[Send] = []
        self.now = 1_794_772_037.0
        self._jobs = count(1)

    def hear(self, vector: dict[str, Any]) -> list[Send]:
        raw = body(vector["label"])
        headers = b""
        if "headers" in vector:
            message = wire.decode(raw)
            raw = wire.encode(self._renamed(message.payload), message.metadata)
            headers = dump(dict(message.metadata))
        frames = [raw, headers, vector.get("reply", "").encode()]
        said = self.side.receive(vector["subject"].encode(), frames, self.now)
        self.events += [item for item in said if not isinstance(item, Send)]
        answers = [item for item in said if isinstance(item, Send)]
        self.sent += answers
        return answers

    def _renamed(self, payload: WireObject) -> WireObject:
        if isinstance(payload, BidResult | RunResult | ComputeError):
            payload.ExecutionID = self.ours[payload.ExecutionID]
        return payload

    def dispatch(self, captured: AskForBid) -> list[Send]:
        """Dispatch the job that the real orchestrator dispatched."""
        job = JobId(f"job-{next(self._jobs)}")
        assert captured.Execution.Job is not None
        self.ours[captured.Execution.ID] = execution_id(job, PEER, 1)
        target = "all" if captured.Execution.Job.Type == "daemon" else "any"
        work = SendWork(
            PEER,
            job,
            1,
            ServiceName("noop"),
            PeerId("test/c"),
            NclBodyCodec().write_call(Call("t")),
            target=target,
            seq=len(self.sent) + 10,
        )
        sends = self.side.render(work, self.now)
        self.sent += sends
        return sends

    def ack(self, send: Send) -> None:
        self.side.receive(send.frames[2], [b"{}", b"", b""], self.now)


def test_our_orchestrator_answers_a_real_node_as_the_real_one_did() -> None:
    ours = Orchestrator()
    real_answers = {v["subject"]: v for v in CAPTURE if v["direction"] == "reply"}
    for vector in CAPTURE:
        ours.now += 0.1
        if vector["direction"] == "compute->orchestrator":
            answers = ours.hear(vector)
            expected = real_answers[vector["reply"]]
            assert answers[0].address.decode() == vector["reply"]
            assert_same_answer(answers[0].frames[0], body(expected["label"]))
        elif name_of(vector) == "AskForBid":
            asked = wire.decode(body(vector["label"])).payload
            assert isinstance(asked, AskForBid)
            (send,) = ours.dispatch(asked)
            assert_same_ask(send, asked)
            ours.ack(send)
    kinds = [wire.decode(s.frames[0]).metadata[wire.TYPE] for s in ours.sent if s.frames[2]]
    # Like the real one, except its cancels of ended executions.
    assert kinds == [
        "AskForBid", "BidAccepted", "AskForBid", "AskForBid", "BidAccepted", "AskForBid",
        "BidAccepted",
    ]  # fmt: skip
    assert not ours.side.nodes[NODE].is_connected


def assert_same_answer(ours: bytes, real: bytes) -> None:
    if real[:1] != b"\x01":
        assert ours == real
        return
    mine, theirs = wire.decode(ours), wire.decode(real)
    assert type(mine.payload) is type(theirs.payload)
    assert {**mine.metadata, wire.EVENT_TIME: ""} == {**theirs.metadata, wire.EVENT_TIME: ""}
    if isinstance(mine.payload, HandshakeResponse):
        assert mine.payload == theirs.payload


def assert_same_ask(send: Send, real: AskForBid) -> None:
    message = wire.decode(send.frames[0])
    mine = message.payload
    assert isinstance(mine, AskForBid)
    assert send.address.decode() == f"bacalhau.global.compute.{NODE}.in.msgs"
    assert message.source == f"orchestrator-{NODE}"
    assert mine.Execution.ComputeState == real.Execution.ComputeState
    assert mine.Execution.DesiredState == real.Execution.DesiredState
    assert mine.Execution.Revision == real.Execution.Revision
    assert mine.Execution.Job is not None
    assert mine.Execution.Job.Meta is not None
    assert mine.Execution.Job.Tasks is not None
    assert mine.Execution.Job.Tasks[0].Engine.Type == "noop"


def test_the_core_hears_the_whole_story() -> None:
    ours = Orchestrator()
    for vector in CAPTURE:
        if vector["direction"] == "compute->orchestrator":
            ours.hear(vector)
        elif name_of(vector) == "AskForBid":
            asked = wire.decode(body(vector["label"])).payload
            assert isinstance(asked, AskForBid)
            ours.dispatch(asked)
    joined = [e for e in ours.events if isinstance(e, WorkerJoined)]
    assert [(e.name, e.services, e.credit) for e in joined] == [(NODE, ("docker", "noop"), 4)]
    assert joined[0].capacity == Capacity(4.0, 8589934592, 107374182400)
    assert len([e for e in ours.events if isinstance(e, BeatReceived)]) == 5
    replies = [(e.job, e.kind.value, e.fault) for e in ours.events if isinstance(e, ReplyReceived)]
    boom = Fault(FaultCode.TASK_FAILED, "boom")
    assert replies == [
        ("job-1", "accepted", None),
        ("job-1", "final", None),
        ("job-3", "accepted", None),
        ("job-3", "final", boom),
        ("job-4", "accepted", None),
        ("job-4", "final", boom),
    ]
    result = next(e for e in ours.events if isinstance(e, ReplyReceived) and e.kind == "final")
    assert NclBodyCodec().read_answer(result.body).value["stdout"] == "hello\n"
    assert [e.reason for e in ours.events if isinstance(e, PeerLeft)] == ["graceful shutdown"]


# --- our node, a real orchestrator --------------------------------------------------------------


class ComputeNode:
    """Our node, fed with the real orchestrator's messages."""

    def __init__(self) -> None:
        self.now = 1_794_772_037.0
        settings = ComputeSettings(heartbeat_interval=0.5, heartbeat_miss_factor=20)
        self.side = NclWorkerSide(
            NODE,
            ("docker", "noop"),
            ids=lambda: "x",
            clock=lambda: self.now,
            slots=8,
            settings=settings,
        )
        self.sent: list[list[bytes]] = []
        self.works: list[Assigned] = []
        self.stopped: list[str] = []

    def say(self, frames: Any) -> list[bytes]:
        self.sent.append([bytes(f) for f in frames])
        return self.sent[-1]

    def hear(self, subject: str, data: bytes, reply: str = "") -> None:
        for word in self.side.receive([subject.encode(), data, b"", reply.encode()]):
            if isinstance(word, SendNow):
                self.say(word.frames)
            elif isinstance(word, Assigned):
                self.works.append(word)
                for frames in self.side.take(word.ticket):
                    self.say(frames)
            elif isinstance(word, Stop):
                self.stopped.append(word.ticket)

    def finish(self, name: str, answer: Answer) -> None:
        for frames in self.side.finish(name, answer):
            self.say(frames)

    def last(self, kind: type[WireObject]) -> tuple[Any, list[bytes]]:
        for frames in reversed(self.sent):
            if frames[1][:1] == b"\x01":
                payload = wire.decode(frames[1]).payload
                if isinstance(payload, kind):
                    return payload, frames
        raise AssertionError(f"no {kind.__name__} was sent")


def test_our_node_answers_a_real_orchestrator_as_the_real_one_did() -> None:
    node = ComputeNode()
    awaiting = ""
    started = None
    for vector in CAPTURE:
        name, raw = name_of(vector), body(vector["label"])
        at = float(vector["note"].split()[0].removeprefix("t+").removesuffix("s"))
        started = at if started is None else started
        node.now = 1_794_772_037.0 + at - started
        if name.startswith("RegisterNode"):
            continue  # Our node skips the legacy registration.
        if name.startswith("transport.") and vector["direction"] == "compute->orchestrator":
            awaiting = expect_request(node, raw)
        elif name.startswith("transport."):
            node.hear(awaiting, raw)
        elif vector["direction"] == "orchestrator->compute":
            node.hear(vector["subject"], raw, vector["reply"])
            assert [vector["reply"].encode(), b"{}", b"", b""] in node.sent
        elif vector["direction"] == "compute->orchestrator":
            expect_data(node, raw)
    assert node.stopped == ["e-d10e5df4-15ea-4efe-a93f-502dd58ed340"]
    assert len(node.works) == 4


def expect_request(node: ComputeNode, real: bytes) -> str:
    """Make our node send the request that the real one sent; return its reply subject."""
    expected = wire.decode(real).payload
    if isinstance(expected, HandshakeRequest):
        frames = node.side.join()
    elif isinstance(expected, ShutdownNoticeRequest):
        frames = node.side.leave()
    else:
        frames = node.side.beat()
    for each in frames:
        node.say(each)
    payload, sent = node.last(type(expected))
    assert sent[0].decode() == f"bacalhau.global.compute.{NODE}.out.ctrl"
    if isinstance(expected, HeartbeatRequest | ShutdownNoticeRequest):
        assert payload.NodeID == expected.NodeID
        assert payload.LastOrchestratorSeqNum == expected.LastOrchestratorSeqNum
    return sent[3].decode()


def expect_data(node: ComputeNode, real: bytes) -> None:
    """Give our node the real one's outcome, and compare what it sends."""
    message = wire.decode(real)
    expected = message.payload
    if isinstance(expected, RunResult):
        node.finish(expected.ExecutionID, Answer(value="hello\n"))
    elif isinstance(expected, ComputeError):
        fault = Fault(FaultCode.TASK_FAILED, "boom")
        node.finish(expected.ExecutionID, Answer(fault=fault))
    payload, frames = node.last(type(expected))
    assert frames[0].decode() == f"bacalhau.global.compute.{NODE}.out.msgs"
    assert wire.decode(frames[1]).source == NODE
    assert isinstance(expected, BidResult | RunResult | ComputeError)
    theirs = (expected.ExecutionID, expected.JobID, expected.JobType)
    assert (payload.ExecutionID, payload.JobID, payload.JobType) == theirs
    if isinstance(expected, ComputeError):
        assert payload.Events[0].Message == "boom"
        assert payload.Events[0].Details == {"IsError": "true"}
    if isinstance(expected, RunResult):
        assert payload.RunCommandResult == expected.RunCommandResult
    node.hear(frames[3].decode(), b"{}")
