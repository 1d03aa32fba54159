"""The broker's end of the local link."""

import pytest

from dragoman.core.effects import SendBeat, SendCancel, SendInput, SendWork
from dragoman.core.events import PeerLeft, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.local import wire
from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.dialects.local.broker_side import LocalBrokerSide
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName

CODEC = LocalBodyCodec()
WORKER = PeerId("local/services")


@pytest.fixture
def side() -> LocalBrokerSide:
    return LocalBrokerSide({"local": CODEC})


def test_a_service_joins_with_a_window_of_credit(side: LocalBrokerSide) -> None:
    (joined,) = side.receive(b"services", wire.encode(wire.LocalJoin(("mmi", "sid"), 4)), 1.0)
    assert isinstance(joined, WorkerJoined)
    assert (joined.worker, joined.services, joined.credit) == (WORKER, ("mmi", "sid"), 4)
    assert joined.credit_returns
    assert joined.is_builtin
    assert joined.holds == frozenset()


def test_an_answer_is_final_and_a_fault_in_it_is_seen(side: LocalBrokerSide) -> None:
    for answer in (Answer(1), Answer(fault=Fault(FaultCode.TASK_FAILED, "why"))):
        body = CODEC.write_answer(answer)
        reply = wire.LocalReply("j", 2, "final", body.parts[0])
        (event,) = side.receive(b"services", wire.encode(reply), 1.0)
        assert event == ReplyReceived(WORKER, JobId("j"), ReplyKind.FINAL, body, answer.fault, 2)


def test_an_unreadable_answer_is_a_failed_task(side: LocalBrokerSide) -> None:
    (event,) = side.receive(
        b"services", wire.encode(wire.LocalReply("j", 1, "final", b"\xff")), 1.0
    )
    assert isinstance(event, ReplyReceived)
    assert event.fault is not None


def test_a_service_may_leave(side: LocalBrokerSide) -> None:
    (event,) = side.receive(b"services", wire.encode(wire.LocalLeave()), 1.0)
    assert isinstance(event, PeerLeft)


def test_work_and_cancel_are_rendered_and_beats_are_not_needed(side: LocalBrokerSide) -> None:
    body = CODEC.write_call(Call("show"))
    work = SendWork(WORKER, JobId("j"), 1, ServiceName("mmi"), PeerId("nfp/c"), body)
    (send,) = side.render(work, 1.0)
    assert wire.decode(send.frames) == wire.LocalWork("j", 1, "nfp/c", body.parts[0])
    (send,) = side.render(SendCancel(WORKER, JobId("j"), 1, PeerId("nfp/c")), 1.0)
    assert wire.decode(send.frames) == wire.LocalCancel("j")
    assert side.render(SendBeat(WORKER), 1.0) == []
    assert side.advance(1.0) == []
    assert side.next_deadline() is None


def test_a_reply_of_no_kind_is_malformed_and_nothing_worse(side: LocalBrokerSide) -> None:
    with pytest.raises(MalformedMessage):
        side.receive(b"services", wire.encode(wire.LocalReply("j", 1, "odd", b"")), 1.0)


def test_input_of_a_client_reaches_its_service(side: LocalBrokerSide) -> None:
    body = CODEC.write_answer(Answer({"offset": 5}))
    (send,) = side.render(SendInput(WORKER, JobId("j"), PeerId("nfp/c"), body), 1.0)
    assert wire.decode(send.frames) == wire.LocalInput("j", body.parts[0])
