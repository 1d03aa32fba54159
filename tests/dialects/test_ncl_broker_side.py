"""The orchestrator side: hostile input, effects and timers."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.dialects.ncl_fabric import Fabric
from tests.dialects.ncl_orchestrator import (
    CTRL,
    DATA,
    NOW,
    connected,
    error_in,
    info,
    noted_in,
    say,
    side,
)
from tests.dialects.ncl_vectors import VECTORS, body, labels

from dragoman.core.effects import Dismiss, SendBeat, SendPoll, SendWork
from dragoman.core.events import ReplyReceived, WorkerJoined
from dragoman.dialects.base import MalformedMessage, Send
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.broker_side import LEGACY_REFUSAL
from dragoman.dialects.ncl.messages import (
    HandshakeRequest,
    HeartbeatRequest,
    RunResult,
    UpdateNodeInfoRequest,
)
from dragoman.dialects.ncl.nodes import APPROVED
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind

# --- hostile input ------------------------------------------------------------------------------


@pytest.mark.parametrize("label", labels("decode."))
def test_an_undecodable_request_is_answered_and_recorded(label: str) -> None:
    outputs = list(connected().receive(CTRL.encode(), [body(label), b"", b"r"], NOW))
    assert [t for t in outputs if isinstance(t, Send)]
    if label in ("decode.badcrc", "decode.null-metadata", "decode.unknown-type", "decode.empty"):
        assert error_in(outputs).Cause.startswith("failed to deserialize request: ")
        assert noted_in(outputs).kind is Kind.REJECTED


@pytest.mark.parametrize("label", labels("decode."))
def test_undecodable_data_is_acked_and_recorded_and_never_refused(label: str) -> None:
    outputs = list(connected().receive(DATA.encode(), [body(label), b"", b"ack"], NOW))
    (ack,) = [t for t in outputs if isinstance(t, Send)]
    assert (ack.address, ack.frames[0], ack.is_strict) == (b"ack", b"{}", True)
    assert noted_in(outputs).kind is Kind.REJECTED


def test_a_node_may_only_speak_for_itself() -> None:
    made = connected()
    for payload in (
        HandshakeRequest(info("n-2")),
        HeartbeatRequest("n-2"),
        UpdateNodeInfoRequest(info("n-2")),
    ):
        outputs = say(made, CTRL, payload)
        assert error_in(outputs).Code == "BadRequest"
        assert "n-2" in noted_in(outputs).detail
    assert list(made.nodes) == ["n-1"]


def test_data_under_a_wrong_name_is_acked_recorded_and_not_applied() -> None:
    outputs = say(connected(), DATA, RunResult("e"), source="n-2")
    assert noted_in(outputs).kind is Kind.REJECTED
    assert not [t for t in outputs if isinstance(t, ReplyReceived)]


def test_a_node_id_that_is_no_token_is_refused() -> None:
    subject = "bacalhau.global.compute.a b.out.ctrl"
    outputs = say(side(), subject, HandshakeRequest(info("a b")))
    assert error_in(outputs).Code == "BadRequest"


def test_data_of_a_node_that_never_shook_hands_is_not_acked() -> None:
    outputs = say(side(), DATA, RunResult("e"))
    assert not [t for t in outputs if isinstance(t, Send)]
    assert noted_in(outputs).kind is Kind.REJECTED


@pytest.mark.parametrize("subject", [CTRL, DATA, "bacalhau.global.compute.n-1.out.requests"])
def test_a_request_without_a_reply_subject_is_malformed(subject: str) -> None:
    with pytest.raises(MalformedMessage, match="reply"):
        say(connected(), subject, HeartbeatRequest("n-1"), reply="")


@pytest.mark.parametrize(
    ("address", "frames"),
    [
        (b"else.where", [b"", b"", b""]),
        (b"\xff", [b"", b"", b""]),
        (CTRL.encode(), [b""]),
        (CTRL.encode(), [b"", b"", b"\xff"]),
        (b"bacalhau.global.compute.n-1.out.heartbeat", [b"", b"", b"r"]),
    ],
)
def test_what_is_not_ours_is_malformed(address: bytes, frames: list[bytes]) -> None:
    with pytest.raises(MalformedMessage):
        connected().receive(address, frames, NOW)


def test_the_legacy_probe_is_refused_with_exactly_the_known_line() -> None:
    vector = body("legacy.register.request")
    subject = b"node.management.n-1.RegisterNode/v1"
    (send,) = side().receive(subject, [vector, b"", b"_INBOX.r"], NOW)
    assert send == Send(b"_INBOX.r", [LEGACY_REFUSAL, b"", b""])
    assert body("legacy.register.response.upgrade") == LEGACY_REFUSAL


def test_a_request_for_a_managed_publisher_is_answered_with_an_error() -> None:
    subject = b"bacalhau.global.compute.n-1.out.requests"
    outputs = list(side().receive(subject, [body("req.presign.request"), b"", b"r"], NOW))
    assert error_in(outputs).Code == "BadRequest"
    (send,) = outputs
    assert isinstance(send, Send)
    assert wire.decode(send.frames[0]).source == "orchestrator-data-plane-responder"
    outputs = list(side().receive(subject, [b"nonsense", b"", b"r"], NOW))
    assert noted_in(outputs).kind is Kind.REJECTED


def test_an_error_carries_status_and_code_in_its_metadata() -> None:
    (send,) = say(side(), CTRL, HeartbeatRequest("n-1"))
    pairs = wire.decode(send.frames[0]).metadata
    assert pairs[wire.STATUS_CODE] == "428"
    assert pairs[wire.ERROR_CODE] == "HandshakeRequired"


def test_the_message_id_of_a_request_s_header_comes_back() -> None:
    payload = HeartbeatRequest("n-1")
    pairs = wire.metadata(payload, "n-1", NOW)
    headers = b'{"Bacalhau-MessageID":"m-7"}'
    frames = [wire.encode(payload, pairs), headers, b"r"]
    (send,) = [t for t in connected().receive(CTRL.encode(), frames, NOW) if isinstance(t, Send)]
    assert wire.decode(send.frames[0]).metadata[wire.MESSAGE_ID] == "m-7"


def test_a_peer_without_headers_is_served() -> None:
    payload = HandshakeRequest(info())
    raw = wire.encode(payload, {wire.TYPE: "transport.HandshakeRequest", wire.ENCODING: "json"})
    outputs = side().receive(CTRL.encode(), [raw, b"", b"r"], NOW)
    assert [t for t in outputs if isinstance(t, WorkerJoined)]


@pytest.mark.parametrize("token", ["", "x", "1-2", "a-b-n-1", "1-2-n-9"])
def test_an_ack_of_nothing_is_malformed(token: str) -> None:
    made = connected()
    inbox = made.subscriptions[4].removesuffix(".*")
    with pytest.raises(MalformedMessage):
        made.receive(f"{inbox}.{token}".encode(), [b"{}", b"", b""], NOW)


def test_an_ack_of_an_old_session_counts_for_nothing() -> None:
    fabric = Fabric()
    fabric.add()
    fabric.loses = lambda c: c.body == b"{}" and c.source == "n-1"
    fabric.submit()
    ask = fabric.sent("AskForBid")[0]
    fabric.loses = lambda c: False
    node = fabric.side.nodes["n-1"]
    node.connect(0, "", fabric.now)
    assert fabric.side.receive(ask.reply.encode(), [b"{}", b"", b""], fabric.now) == []
    assert len(node.publisher) > 0


_subjects = st.sampled_from([CTRL, DATA, "bacalhau.global.compute.n-1.out.requests"])
_bodies = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([bytes.fromhex(v["payload_hex"]) for v in VECTORS if v.get("payload_hex")]),
)


@hypothesis_settings(max_examples=300)
@given(st.lists(st.tuples(_subjects, _bodies, st.sampled_from([b"", b"r"])), max_size=6))
def test_no_message_raises_anything_but_malformed(
    messages: list[tuple[str, bytes, bytes]],
) -> None:
    made = connected()
    for subject, data, reply in messages:
        try:
            made.receive(subject.encode(), [data, b"", reply], NOW)
        except MalformedMessage:
            continue


# --- timers and effects -------------------------------------------------------------------------


def test_effects_without_a_message_render_nothing() -> None:
    made = connected()
    assert made.render(SendBeat(PeerId("ncl/n-1")), NOW) == []


def test_a_dismissed_node_has_to_shake_hands_anew() -> None:
    made = connected()
    assert made.render(Dismiss(PeerId("ncl/n-1"), "not registered here"), NOW) == []
    assert error_in(say(made, CTRL, HeartbeatRequest("n-1"))).Code == "HandshakeRequired"
    assert made.render(Dismiss(PeerId("ncl/unknown"), "?"), NOW) == []


def test_work_that_the_side_does_not_know_is_given_back() -> None:
    made = connected()
    poll = SendPoll(PeerId("ncl/n-1"), JobId("j1"), 2, PeerId("test/c"))
    (send,) = made.render(poll, NOW)
    assert wire.decode(send.frames[0]).metadata[wire.TYPE] == "CancelExecution"
    assert made.next_deadline() == 0.0
    (reply,) = [t for t in made.advance(NOW) if isinstance(t, ReplyReceived)]
    assert reply.fault is not None
    assert (reply.job, reply.attempt, reply.fault.code) == ("j1", 2, FaultCode.HANDED_BACK)
    assert made.render(SendPoll(PeerId("ncl/x"), JobId("j"), 1, PeerId("t/c")), NOW) == []


def test_work_for_a_node_that_was_never_here_is_refused() -> None:
    fabric = Fabric()
    fabric.add()
    fabric.side.nodes.clear()
    fabric.submit()
    assert fabric.final().fault is not None


def test_a_refused_delivery_is_tried_again_after_a_pause() -> None:
    fabric = Fabric()
    node = fabric.add()
    del fabric.nodes["n-1"]
    fabric.submit()
    assert [c.body for c in fabric.traffic if c.source == "nats"] == [b""]
    fabric.nodes["n-1"] = node
    fabric.wait(6)
    assert len(node.works) == 1


def test_a_new_connection_to_nats_sends_at_once_what_may_be_lost() -> None:
    fabric = Fabric()
    node = fabric.add()
    fabric.loses = lambda c: c.type == "AskForBid"
    fabric.submit()
    fabric.loses = lambda c: False
    outputs = fabric.side.receive(b"", [b"", b"", b""], fabric.now)
    assert len(outputs) >= 1
    fabric._take(outputs)
    fabric.settle()
    assert len(node.works) == 1


def test_a_node_awaiting_approval_beats_but_gets_no_work() -> None:
    fabric = Fabric(OrchestratorSettings(manual_approval=True))
    node = fabric.add()
    fabric.submit()
    fabric.wait(20)
    assert node.works == []
    fabric._take(fabric.side.set_membership("n-1", APPROVED, fabric.now))
    fabric.settle()
    assert len(node.works) == 1


def test_a_node_that_is_rejected_is_dropped_and_kept_out() -> None:
    fabric = Fabric()
    fabric.add()
    fabric._take(fabric.side.set_membership("n-1", "REJECTED", fabric.now))
    fabric.wait(40)
    assert not fabric.side.nodes["n-1"].is_connected
    assert fabric.side.nodes["n-1"].last_error == "node rejected"
    assert "node has been rejected" in fabric.nodes["n-1"].side.last_error
    with pytest.raises(KeyError):
        fabric.side.set_membership("nobody", APPROVED, fabric.now)


def test_its_subscriptions_are_those_of_an_orchestrator() -> None:
    found = side().subscriptions
    assert found[:4] == (
        "bacalhau.global.compute.*.out.ctrl",
        "bacalhau.global.compute.*.out.msgs",
        "bacalhau.global.compute.*.out.requests",
        "node.management.*.*",
    )
    assert found[4].startswith("_INBOX.")


def test_a_body_of_an_unknown_dialect_is_unmappable() -> None:
    work = SendWork(
        PeerId("ncl/n-1"), JobId("j"), 1, ServiceName("math"), PeerId("t/c"), Body("zzz", (b"",))
    )
    with pytest.raises(Unmappable):
        connected().render(work, NOW)
