"""The compute node: hostile input of an orchestrator or another peer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.ncl_fabric import Fabric
from tests.dialects.ncl_vectors import VECTORS, body, labels

from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.messages import (
    AskForBid,
    BidResult,
    CancelExecution,
    HandshakeRequest,
    HandshakeResponse,
    HeartbeatRequest,
    UpdateNodeInfoRequest,
)
from dragoman.dialects.ncl.models import (
    RUN,
    BuildVersionInfo,
    Execution,
    ExecutionState,
    JobSpec,
    NclTask,
    Resources,
    SpecConfig,
    TaskResources,
    WireObject,
)
from dragoman.dialects.ncl.settings import ComputeSettings
from dragoman.dialects.ncl.store import NodeStore
from dragoman.dialects.ncl.worker_side import NclWorkerSide
from dragoman.dialects.peer_sides import Alive, Assigned, SendNow
from dragoman.model.content import Answer

IN = "bacalhau.global.compute.n-1.in.msgs"


class Stage:
    """A node, its clock, and what it sent."""

    def __init__(self, store: NodeStore | None = None, **settings: Any) -> None:
        self.now = 1_700_000_000.0
        self.side = NclWorkerSide(
            "n-1",
            ("math",),
            ids=lambda: "x",
            clock=lambda: self.now,
            slots=4,
            settings=ComputeSettings(**settings),
            store=store,
        )

    def hear(self, subject: str, data: bytes, reply: str = "") -> list[Any]:
        return self.side.receive([subject.encode(), data, b"", reply.encode()])

    def deliver(self, payload: WireObject, seq: int, reply: str = "ack") -> list[Any]:
        pairs = wire.data_metadata(payload, "orchestrator-n-1", self.now, seq, IN)
        return self.hear(IN, wire.encode(payload, pairs), reply)

    def connected(self, start: int = 0) -> "Stage":
        (frames,) = self.side.join()
        response = HandshakeResponse(True, "node registered", 0, start)
        data = wire.encode(response, wire.metadata(response, "o", self.now))
        self.hear(frames[3].decode(), data)
        assert self.side.is_connected
        return self


def ask(name: str = "e1") -> AskForBid:
    task = NclTask(
        Name="main",
        Engine=SpecConfig("math", {"task": "t"}),
        Resources=TaskResources(CPU="500m"),
    )
    job = JobSpec(ID="j", Name="n", Namespace="d", Type="batch", Meta={}, Tasks=[task])
    return AskForBid(None, Execution(ID=name, JobID="j", Job=job, DesiredState=ExecutionState(RUN)))


def sent(words: list[Any]) -> list[list[bytes]]:
    return [list(w.frames) for w in words if isinstance(w, SendNow)]


def payloads(frames: Any) -> list[WireObject]:
    return [wire.decode(f[1]).payload for f in frames if f[1][:1] == b"\x01"]


ACK = [b"ack", b"{}", b"", b""]


@pytest.mark.parametrize("label", [*labels("decode."), "data.runresult", "data.askforbid.nullmeta"])
def test_whatever_comes_as_data_is_acked(label: str) -> None:
    stage = Stage().connected()
    assert ACK in sent(stage.hear(IN, body(label), "ack"))


@pytest.mark.parametrize("label", ["decode.badcrc", "decode.unknown-type", "data.runresult"])
def test_what_cannot_be_used_is_kept_for_the_log(label: str) -> None:
    stage = Stage().connected()
    stage.hear(IN, body(label), "ack")
    assert len(stage.side.unreadable) == 1


def test_troubles_are_bounded() -> None:
    stage = Stage()
    for _ in range(300):
        stage.hear(IN, b"nonsense", "ack")
    assert len(stage.side.unreadable) == 100


@given(
    st.sampled_from([IN, "node.compute.n-1.ExecutionLogs/v1", "$SRV.PING", "else", ""]),
    st.one_of(
        st.binary(max_size=50),
        st.sampled_from([bytes.fromhex(v["payload_hex"]) for v in VECTORS if v.get("payload_hex")]),
    ),
    st.sampled_from(["", "r"]),
)
def test_nothing_a_stranger_sends_raises(subject: str, data: bytes, reply: str) -> None:
    Stage().connected().hear(subject, data, reply)


@pytest.mark.parametrize(
    "frames", [[], [b"x"], [b"\xff", b"", b"", b""], [b"a", b"", b"", b"\xff"]]
)
def test_frames_that_are_no_message_are_ignored(frames: list[bytes]) -> None:
    assert Stage().side.receive(frames) == []


def test_the_number_it_reports_never_falls_by_a_replay() -> None:
    stage = Stage().connected(start=5)
    stage.deliver(ask("e1"), 9)
    stage.deliver(ask("e2"), 12)
    stage.deliver(ask("e1"), 9)
    stage.now += 15
    (beat,) = [p for p in payloads(stage.side.beat()) if isinstance(p, HeartbeatRequest)]
    assert beat.LastOrchestratorSeqNum == 12


def test_it_adopts_where_the_orchestrator_says_it_is() -> None:
    stage = Stage().connected(start=40)
    (request,) = payloads(stage.side.join())
    assert isinstance(request, HandshakeRequest)
    assert request.LastOrchestratorSeqNum == 40


def test_sequences_of_the_orchestrator_may_start_anew() -> None:
    stage = Stage().connected(start=500)
    stage.connected(start=0)
    assert any(isinstance(w, Assigned) for w in stage.deliver(ask(), 1))


def test_results_wait_for_a_session() -> None:
    stage = Stage().connected()
    stage.deliver(ask(), 1)
    stage.side.join()
    assert stage.side.finish("e1", Answer(value=1)) == []
    response = HandshakeResponse(True, "node reconnected", 0, 1)
    stage.side.join()
    frames = stage.side.join()[0]
    words = stage.hear(
        frames[3].decode(), wire.encode(response, wire.metadata(response, "o", stage.now))
    )
    assert [type(p).__name__ for p in payloads(sent(words))] == [
        "HeartbeatRequest",
        "RunResult",
    ]


def test_an_old_ack_counts_for_nothing_and_a_new_one_does() -> None:
    stage = Stage().connected()
    stage.deliver(ask(), 1)
    (result,) = stage.side.finish("e1", Answer(value=1))
    stage.connected()
    stage.hear(result[3].decode(), b"{}")
    stage.side.checkpoint()
    assert len(stage.side.store.out) == 1
    stage.now += 31
    stage.side.beat()
    stage.now += 6
    again = [f for f in stage.side.beat() if f[1][:1] == b"\x01" and f[0].endswith(b"out.msgs")]
    (message,) = again
    stage.hear(message[3].decode(), b"{}")
    stage.side.checkpoint()
    assert len(stage.side.store.out) == 0


def test_labels_and_slots_that_change_are_sent() -> None:
    stage = Stage().connected()
    stage.side.labels["zone"] = "eu"
    stage.side.slots = 7
    stage.now += 60
    (update,) = [p for p in payloads(stage.side.beat()) if isinstance(p, UpdateNodeInfoRequest)]
    assert update.NodeInfo.Labels is not None
    assert update.NodeInfo.Labels["zone"] == "eu"
    assert update.NodeInfo.Labels["dragoman.slots"] == "7"


def test_a_node_advertises_capacity_and_the_protocol() -> None:
    info = Stage().side.describe()
    assert info.SupportedProtocols == ["ncl/v1"]
    assert info.ComputeNodeInfo.MaxCapacity.CPU == 4
    assert info.ComputeNodeInfo.ExecutionEngines == ["math"]


def test_a_name_that_cannot_be_a_node_id_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be a node id"):
        NclWorkerSide("a.b", ("s",), ids=lambda: "x", clock=lambda: 0.0)


def test_discovery_is_answered_where_a_reply_is_wanted() -> None:
    stage = Stage()
    (word,) = stage.hear("$SRV.PING", b"", "_INBOX.q")
    assert word.frames[0] == b"_INBOX.q"
    assert b"ping_response" in word.frames[1]
    assert stage.hear("$SRV.PING", b"", "") == []


def test_an_answer_is_a_sign_of_life_and_no_answer_is_none() -> None:
    stage = Stage().connected()
    stage.now += 15
    (beat,) = stage.side.beat()
    assert stage.hear(beat[3].decode(), b"") == []
    stage.now += 15
    (beat,) = stage.side.beat()
    data = body("envelope.protobuf.heartbeatresponse")
    assert stage.hear(beat[3].decode(), data) == [Alive()]


def test_a_new_connection_makes_it_beat_at_once() -> None:
    stage = Stage().connected()
    words = stage.hear("", b"")
    assert [type(p) for p in payloads(sent(words))] == [HeartbeatRequest]


def test_a_real_orchestrator_s_cancel_after_the_result_is_harmless() -> None:
    fabric = Fabric()
    node = fabric.add()
    fabric.submit()
    work = node.works[0]
    node.finish(work, Answer(value=1))
    payload = CancelExecution(None, work.ticket)
    pairs = wire.data_metadata(payload, "orchestrator-n-1", fabric.now, 99, IN)
    fabric.publish("real", IN, wire.frames(payload, pairs, "_INBOX.real"))
    fabric.settle()
    assert node.stops == []
    assert fabric.value() == 1


def test_what_was_written_is_checkpointed_at_intervals() -> None:
    lines: list[bytes] = []
    stage = Stage(NodeStore(lines.append)).connected()
    stage.deliver(ask(), 9)
    assert not any(b'"k":"at"' in line for line in lines)
    stage.now += 30
    stage.side.beat()
    assert any(b'"received":9' in line for line in lines)


def test_a_bid_is_sent_as_data_with_an_ack_inbox() -> None:
    stage = Stage().connected()
    asked = ask()
    asked.Execution.DesiredState = ExecutionState(0)
    words = stage.deliver(asked, 1)
    (frames,) = [f for f in sent(words) if f[0].endswith(b"out.msgs")]
    message = wire.decode(frames[1])
    assert isinstance(message.payload, BidResult)
    assert message.payload.Accepted
    assert (message.source, wire.SUBJECT in message.metadata) == ("n-1", False)
    assert frames[3].startswith(b"_INBOX.")


def test_the_version_is_empty_for_real_orchestrators_and_ours_is_a_label() -> None:
    info = Stage().side.describe()
    assert info.BacalhauVersion == BuildVersionInfo()
    assert (info.Labels or {})["dragoman.version"] == "0.1.0"


def test_a_heartbeat_reports_the_queue() -> None:
    stage = Stage().connected()
    stage.side.slots = 1
    for number in range(3):
        stage.deliver(ask(f"e{number}"), number + 1)
    stage.now += 15
    (beat,) = [p for p in payloads(stage.side.beat()) if isinstance(p, HeartbeatRequest)]
    assert beat.QueueUsedCapacity == Resources(CPU=1)
    compute = stage.side.describe().ComputeNodeInfo
    assert (compute.RunningExecutions, compute.EnqueuedExecutions) == (1, 2)
    assert compute.QueueCapacity == Resources(CPU=1)
