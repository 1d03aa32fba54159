"""The broker's end as a whole: who speaks, what is for nobody here, and bad input."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.memo01_peers import ONE, TWO, Peer, joined, make, said, work

from dragoman.core.effects import SendCancel, SendInput
from dragoman.core.events import WorkerJoined
from dragoman.dialects.base import MalformedMessage, Send
from dragoman.dialects.memo01.broker_side import MemoBrokerSide
from dragoman.dialects.memo01.wire import (
    MemoDisconnect,
    MemoHeartbeat,
    MemoJob,
    MemoMessage,
    MemoReady,
    MemoResult,
    encode,
)
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId


@pytest.fixture
def side() -> MemoBrokerSide:
    return make()


# --- who speaks ---------------------------------------------------------------------------------


def test_a_worker_speaks_by_its_id_and_everybody_else_by_their_connection(
    side: MemoBrokerSide,
) -> None:
    peer = Peer(side)
    _, id_ = joined(side, peer)
    for message in (MemoHeartbeat(id_), MemoResult(id_)):
        assert side.speaks_as(TWO + b"1111", [encode(message)]) == id_.hex()
    stranger = "c" + TWO.hex()
    assert side.speaker(TWO + b"1111") == stranger
    for raw in (encode(MemoReady(("svc",))), encode(MemoHeartbeat(b"unknown")), b"noise"):
        assert side.speaks_as(TWO + b"1111", [raw]) == stranger


def test_a_job_that_is_sent_again_is_said_by_whoever_sent_it_first(side: MemoBrokerSide) -> None:
    client = Peer(side, ONE)
    job = MemoJob(b"", "svc", 1000, b"in")
    client.say(job)
    again = TWO + client.address[8:]
    assert side.speaks_as(again, [encode(job)]) == "c" + ONE.hex()
    assert side.speaks_as(TWO + b"9999", [encode(job)]) == "c" + TWO.hex()


def test_whoever_uses_another_workers_id_hears_that_it_is_not_known(side: MemoBrokerSide) -> None:
    where, fault = ONE + b"1111", Fault(FaultCode.DENIED)
    stolen, asked = [encode(MemoHeartbeat(b"stolen"))], [encode(MemoJob(b"", "svc", 1000))]
    assert said(side.deny(where, stolen, None, fault, 0.0)) == [(where, MemoDisconnect(b"stolen"))]
    assert side.deny(where, asked, None, fault, 0.0) == []
    answer = [Send(where, [b"the core's own"])]
    assert side.deny(where, stolen, answer, fault, 0.0) == answer


def test_resends_of_clients_and_of_workers_are_counted_together(side: MemoBrokerSide) -> None:
    worker, client = Peer(side, ONE), Peer(side, TWO)
    joined(side, worker)
    client.say(MemoJob(b"", "svc", 1000))
    worker.again(MemoReady(("svc",)))
    client.again(MemoJob(b"", "svc", 1000))
    assert side.resends == 2


def test_what_memo_cannot_say_is_not_said(side: MemoBrokerSide) -> None:
    worker, _ = joined(side, Peer(side))
    client = PeerId("x/c")
    assert side.render(SendCancel(worker, JobId("j"), 1, client), 0.0) == []
    assert side.render(SendInput(worker, JobId("j"), client, Body("memo")), 0.0) == []


# --- bad input ----------------------------------------------------------------------------------

#: The text sets no order of service names, so this broker takes what upstream rejects.
ANY_ORDER = {
    "rejected: READY unsorted list",
    "rejected: READY same length unsorted",
    "rejected: READY duplicate name",
}
VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "memo01" / "vectors.json").read_text()
)


@pytest.mark.parametrize(
    "raw",
    [
        bytes.fromhex(v["message_hex"])
        for v in VECTORS
        if v["label"].startswith("rejected:") and v["label"] not in ANY_ORDER
    ],
)
def test_a_rejected_message_gets_no_answer_and_harms_nobody(
    side: MemoBrokerSide, raw: bytes
) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    parked = peer.address
    with pytest.raises(MalformedMessage):
        peer.say(raw)
    assert said(side.render(work(worker, run_until=1.0), 0.0)) == [
        (parked, MemoJob(id_, "svc", 1000, b"in"))
    ]


@pytest.mark.parametrize("frames", [[b"a", b"b"], [b""]])
def test_anything_but_one_frame_is_malformed(side: MemoBrokerSide, frames: list[bytes]) -> None:
    with pytest.raises(MalformedMessage):
        side.receive(ONE + b"\x80\0\0\1", frames, 0.0)


def test_only_the_broker_says_disconnect(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    _, id_ = joined(side, peer)
    with pytest.raises(MalformedMessage, match="DISCONNECT"):
        peer.say(MemoDisconnect(id_))


def test_a_message_without_a_request_is_malformed(side: MemoBrokerSide) -> None:
    with pytest.raises(MalformedMessage):
        side.receive(ONE, [encode(MemoReady(()))], 0.0)


yes_or_no: st.SearchStrategy[bool] = st.booleans()
a_message = st.one_of(
    st.just(encode(MemoReady(("svc",)))),
    st.builds(
        lambda t, p: encode(MemoJob(b"", "svc", t, p)), st.integers(-1, 3), st.binary(max_size=3)
    ),
    st.binary(max_size=12),
)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), a_message, st.booleans())), st.data()
)
def test_whatever_peers_say_only_malformed_is_raised(
    story: list[tuple[int, int, bytes, bool]], data: st.DataObject
) -> None:
    side, now = make(), 0.0
    workers: list[PeerId] = []
    for connection, request, raw, ends in story:
        now += 1.0
        where = b"connect%d" % connection
        address = where + (0x80000000 + request).to_bytes(4)
        if data.draw(yes_or_no) and workers:
            id_ = bytes.fromhex(data.draw(st.sampled_from(workers)).partition("/")[2])
            answers: list[MemoMessage] = [
                MemoResult(id_),
                MemoHeartbeat(id_),
                MemoResult(id_, b"", True),
            ]
            raw = encode(data.draw(st.sampled_from(answers)))
        try:
            outcome = side.receive(where if ends else address, [] if ends else [raw], now)
        except MalformedMessage:
            continue
        workers += [e.worker for e in outcome if isinstance(e, WorkerJoined)]
        if data.draw(yes_or_no) and workers:
            side.render(work(data.draw(st.sampled_from(workers)), run_until=now + 2), now)
        side.advance(now)
