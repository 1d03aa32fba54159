"""The broker's end, towards workers: parking slots, heartbeats, resends, late results."""

from collections.abc import Callable

import pytest
from tests.dialects.memo01_peers import ONE, TWO, Peer, joined, make, said, work

from dragoman.core.effects import Dismiss, SendBeat
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import Send
from dragoman.dialects.memo01.body_codec import MemoBodyCodec
from dragoman.dialects.memo01.broker_side import MemoBrokerSide
from dragoman.dialects.memo01.settings import LONGEST_TIMEOUT_MS, MemoSettings
from dragoman.dialects.memo01.wire import (
    MemoDisconnect,
    MemoHeartbeat,
    MemoJob,
    MemoMessage,
    MemoReady,
    MemoResult,
    encode,
)
from dragoman.dialects.memo01.worker_handler import MemoWorkerHandler, disconnect_unknown
from dragoman.dialects.memo01.workers import MemoWorkers
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, WorkerName
from dragoman.model.record import Kind


@pytest.fixture
def side() -> MemoBrokerSide:
    return make()


# --- work and results -----------------------------------------------------------------------------


def test_a_ready_is_parked_and_the_worker_joins_with_one_credit(side: MemoBrokerSide) -> None:
    (event,) = Peer(side).say(MemoReady(("a", "bb")))
    assert isinstance(event, WorkerJoined)
    assert event.services == ("a", "bb")
    assert (event.credit, event.credit_returns, event.beat_every) == (1, False, None)
    assert event.name == "memo-" + event.worker.removeprefix("memo/")
    assert event.dialect == "memo"


def test_workers_on_one_connection_have_different_ids(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    assert len({joined(side, peer) for _ in range(100)}) == 100


def test_work_answers_the_parked_request_with_the_workers_id_and_the_same_body(
    side: MemoBrokerSide,
) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    sends = side.render(work(worker, b"in", run_until=7.25), 5.0)
    assert said(sends) == [(peer.address, MemoJob(id_, "svc", 2250, b"in"))]


def test_work_without_a_time_limit_says_the_longest(side: MemoBrokerSide) -> None:
    worker, id_ = joined(side, Peer(side))
    ((_, message),) = said(side.render(work(worker), 5.0))
    assert message == MemoJob(id_, "svc", LONGEST_TIMEOUT_MS, b"in")


def test_work_for_nobody_is_not_sent(side: MemoBrokerSide) -> None:
    assert side.render(work(PeerId("memo/00")), 0.0) == []


def test_a_result_ends_the_job_and_parks_the_worker_again(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    assert peer.say(MemoResult(id_, b"out"), 1.0) == [
        ReplyReceived(worker, JobId("j"), ReplyKind.FINAL, Body("memo", (b"out",)), None, 1),
        CreditGranted(worker, request=0x80000001),
    ]
    assert said(side.render(work(worker, b"next"), 2.0))[0][0] == peer.address


def test_the_first_answer_after_a_result_waits_for_its_record(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    peer.say(MemoResult(id_, b"out"), 1.0)
    beat = Send(peer.address, [encode(MemoHeartbeat(id_))], is_strict=True)
    assert side.advance(11.0) == [beat], "a worker that gets an answer forgets its result"
    peer.say(MemoHeartbeat(id_), 11.5)
    (later,) = side.advance(21.5)
    assert isinstance(later, Send)
    assert not later.is_strict


def test_a_worker_that_leaves_with_its_result_is_told_disconnect(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    reply, left, bye = peer.say(MemoResult(id_, b"out", True), 1.0)
    assert isinstance(reply, ReplyReceived)
    assert isinstance(left, PeerLeft)
    assert bye == Send(peer.address, [encode(MemoDisconnect(id_))], is_strict=True)
    assert said(peer.say(MemoHeartbeat(id_))) == [(peer.address, MemoDisconnect(id_))]


@pytest.mark.parametrize("make_message", [MemoResult, MemoHeartbeat], ids=["RESULT", "HEARTBEAT"])
@pytest.mark.parametrize("id_", [b"abcd", b"long-identifier", b"x" * 1000])
def test_an_unknown_worker_gets_disconnect_with_its_id(
    side: MemoBrokerSide, make_message: Callable[[bytes], MemoMessage], id_: bytes
) -> None:
    peer = Peer(side)
    assert said(peer.say(make_message(id_))) == [(peer.address, MemoDisconnect(id_))]


def test_a_result_without_a_job_is_out_of_sync(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    left, bye = peer.say(MemoResult(id_, b"out"))
    assert left == PeerLeft(worker, "out of sync: RESULT while parked")
    assert bye == Send(peer.address, [encode(MemoDisconnect(id_))])


def test_a_heartbeat_from_a_busy_worker_is_out_of_sync(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    left, bye = peer.say(MemoHeartbeat(id_))
    assert left == PeerLeft(worker, "out of sync: HEARTBEAT while busy")
    assert isinstance(bye, Send)


def test_a_dismissed_worker_hears_it_at_once_if_it_is_parked(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    sends = side.render(Dismiss(worker, "drained"), 0.0)
    assert said(sends) == [(peer.address, MemoDisconnect(id_))]
    assert side.render(Dismiss(worker, "drained"), 0.0) == []


def test_a_dismissed_busy_worker_hears_it_with_its_next_message(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    assert side.render(Dismiss(worker, "gone"), 0.0) == []
    late, bye = peer.say(MemoResult(id_, b"out"))
    assert late == ReplyReceived(
        worker, JobId("j"), ReplyKind.FINAL, Body("memo", (b"out",)), None, 1
    )
    assert isinstance(bye, Send)


def test_there_is_a_bound_on_workers() -> None:
    side = make(MemoSettings(max_workers=2))
    peer = Peer(side)
    joined(side, peer), joined(side, peer)
    (note,) = peer.say(MemoReady(("svc",)))
    assert isinstance(note, Noted)
    assert note.kind is Kind.REFUSED


def test_an_id_is_never_given_twice_at_a_time() -> None:
    names = iter(["run", "same", "same", "other"])
    side = MemoBrokerSide(lambda: next(names), {})
    peer = Peer(side)
    assert joined(side, peer) != joined(side, peer)


def test_the_worker_names_the_core_sees_are_unique(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    names: set[WorkerName] = set()
    for _ in range(10):
        (event,) = peer.say(MemoReady(("svc",)))
        assert isinstance(event, WorkerJoined)
        names.add(event.name)
    assert len(names) == 10


# --- heartbeats ---------------------------------------------------------------------------------


def test_an_idle_worker_gets_a_heartbeat_and_answers_it(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer, now=100.0)
    assert side.next_deadline() == 110.0
    assert side.advance(109.9) == []
    assert said(side.advance(110.0)) == [(peer.address, MemoHeartbeat(id_))]
    assert peer.say(MemoHeartbeat(id_), 110.5) == [BeatReceived(worker)]
    assert said(side.advance(120.5)) == [(peer.address, MemoHeartbeat(id_))]


def test_a_worker_that_does_not_answer_its_heartbeat_is_lost(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.advance(10.0)
    assert side.advance(19.9) == []
    assert side.advance(20.0) == [PeerLeft(worker, "the worker did not answer a HEARTBEAT")]
    assert said(peer.say(MemoHeartbeat(id_))) == [(peer.address, MemoDisconnect(id_))]


def test_work_waits_for_the_answer_to_a_heartbeat(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.advance(10.0)
    assert side.render(work(worker, run_until=70.0), 10.0) == []
    beat, send = peer.say(MemoHeartbeat(id_), 11.0)
    assert beat == BeatReceived(worker)
    assert send == Send(peer.address, [encode(MemoJob(id_, "svc", 60_000, b"in"))])
    reply = peer.say(MemoResult(id_, b"out"), 12.0)[0]
    assert isinstance(reply, ReplyReceived)


def test_work_that_never_reached_its_worker_leaves_no_late_result(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.advance(10.0)
    side.render(work(worker, run_until=70.0), 10.0)
    assert side.advance(20.0) == [PeerLeft(worker, "the worker did not answer a HEARTBEAT")]
    assert said(peer.say(MemoResult(id_, b"?"))) == [(peer.address, MemoDisconnect(id_))]


def test_the_core_may_ask_for_a_heartbeat_too(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    assert said(side.render(SendBeat(worker), 1.0)) == [(peer.address, MemoHeartbeat(id_))]
    assert side.render(SendBeat(worker), 2.0) == []
    assert side.render(SendBeat(PeerId("memo/00")), 2.0) == []


def test_a_busy_worker_may_be_silent_for_as_long_as_its_job_may_run(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker, run_until=7200.0), 0.0)
    assert side.advance(7200.0) == []
    assert side.advance(7201.0) == [PeerLeft(worker, "the worker did not send a RESULT in time")]
    assert isinstance(peer.say(MemoResult(id_, b"out"), 7300.0)[0], ReplyReceived)


def test_a_result_after_its_time_is_put_on_record_and_its_worker_starts_anew(
    side: MemoBrokerSide,
) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker, run_until=1.0), 0.0)
    reply, left, bye = peer.say(MemoResult(id_, b"out"), 1.5)
    assert isinstance(reply, ReplyReceived)
    assert left == PeerLeft(worker, "out of sync: RESULT after the job's timeout while busy")
    assert bye == Send(peer.address, [encode(MemoDisconnect(id_))], is_strict=True)


# --- resends and reconnects of workers ----------------------------------------------------------


def test_a_resent_ready_is_the_same_worker(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, _ = joined(side, peer)
    assert peer.again(MemoReady(("svc",))) == []
    side.render(work(worker), 0.0)
    assert peer.again(MemoReady(("svc",))) == []
    assert side.resends == 2


def test_a_resent_result_is_not_the_result_of_the_next_job(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    peer.say(MemoResult(id_, b"first"))
    assert peer.again(MemoResult(id_, b"first")) == []
    side.render(work(worker), 0.0)
    assert peer.again(MemoResult(id_, b"first")) == []


def test_a_resent_heartbeat_is_one_beat(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    _, id_ = joined(side, peer)
    side.advance(10.0)
    assert len(peer.say(MemoHeartbeat(id_), 11.0)) == 1
    assert peer.again(MemoHeartbeat(id_), 12.0) == []


def test_a_result_resent_on_another_connection_is_not_the_result_of_the_next_job(
    side: MemoBrokerSide,
) -> None:
    peer = Peer(side, ONE)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    peer.say(MemoResult(id_, b"first"))
    ((_, second),) = said(side.render(work(worker, b"second", run_until=60.0), 0.0))
    # The second job is lost with its connection, so the worker sends its result again.
    peer.address = TWO + peer.address[8:]
    assert said(peer.again(MemoResult(id_, b"first"), 1.0)) == [(peer.address, second)]
    side.receive(ONE, [], 2.0)
    reply = peer.say(MemoResult(id_, b"of the second"), 3.0)[0]
    assert isinstance(reply, ReplyReceived)
    assert reply.body.parts == (b"of the second",)


def test_an_old_request_on_another_connection_takes_nothing_from_the_open_one(
    side: MemoBrokerSide,
) -> None:
    peer = Peer(side, ONE)
    worker, id_ = joined(side, peer)
    answered = peer.address
    side.render(work(worker), 0.0)
    peer.say(MemoResult(id_, b"first"))
    assert side.receive(TWO + answered[8:], [encode(MemoResult(id_, b"stale"))], 1.0) == []
    assert [where for where, _ in said(side.render(work(worker), 2.0))] == [peer.address]


def test_a_heartbeat_lost_with_its_connection_is_given_again(side: MemoBrokerSide) -> None:
    peer = Peer(side, ONE)
    _, id_ = joined(side, peer)
    side.advance(10.0)
    peer.say(MemoHeartbeat(id_), 11.0)
    side.advance(21.0)
    peer.address = TWO + peer.address[8:]
    assert said(peer.again(MemoHeartbeat(id_), 22.0)) == [(peer.address, MemoHeartbeat(id_))]
    assert side.advance(31.9) == []
    assert len(side.advance(32.0)) == 1


def test_a_parked_worker_that_reconnects_before_it_is_missed_stays(side: MemoBrokerSide) -> None:
    peer = Peer(side, ONE)
    worker, id_ = joined(side, peer)
    side.advance(10.0)
    peer.say(MemoHeartbeat(id_), 11.0)
    peer.address = TWO + peer.address[8:]
    assert peer.again(MemoHeartbeat(id_), 12.0) == []
    assert side.receive(ONE, [], 13.0) == []
    assert said(side.render(work(worker), 13.0))[0][0] == peer.address


def test_a_result_resent_after_its_worker_was_given_up_is_not_the_next_jobs(
    side: MemoBrokerSide,
) -> None:
    peer = Peer(side, ONE)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    peer.say(MemoResult(id_, b"first"))
    side.render(work(worker, b"second"), 0.0)
    side.receive(ONE, [], 1.0)
    side.advance(6.0)
    peer.address = TWO + peer.address[8:]
    assert said(peer.again(MemoResult(id_, b"first"), 7.0)) == [(peer.address, MemoDisconnect(id_))]
    assert isinstance(peer.say(MemoResult(id_, b"second"), 8.0)[0], ReplyReceived)


def test_the_end_of_a_connection_drops_the_workers_parked_there(side: MemoBrokerSide) -> None:
    here, there = Peer(side, ONE), Peer(side, TWO)
    workers = {joined(side, here)[0], joined(side, here)[0]}
    other, _ = joined(side, there)
    assert set(side.receive(ONE, [], 1.0)) == {PeerLeft(w, "its connection ended") for w in workers}
    assert side.receive(ONE, [], 1.0) == []
    assert len(side.render(work(other), 1.0)) == 1


def test_a_busy_worker_may_bring_its_result_on_another_connection(side: MemoBrokerSide) -> None:
    worker, id_ = joined(side, Peer(side, ONE))
    side.render(work(worker, run_until=60.0), 0.0)
    assert side.receive(ONE, [], 1.0) == []
    peer = Peer(side, TWO, first=0x80000100)
    assert len(peer.say(MemoResult(id_, b"out"), 3.0)) == 2
    assert side.advance(10.0) == []
    assert side.receive(TWO, [], 11.0) == [PeerLeft(worker, "its connection ended")]


def test_a_busy_worker_that_does_not_come_back_is_lost(side: MemoBrokerSide) -> None:
    worker, _ = joined(side, Peer(side, ONE))
    side.render(work(worker, run_until=3600.0), 0.0)
    side.receive(ONE, [], 1.0)
    assert side.next_deadline() == 6.0
    assert side.advance(6.0) == [
        PeerLeft(worker, "its connection ended and the worker did not come back")
    ]


def test_the_grace_does_not_lengthen_a_short_job(side: MemoBrokerSide) -> None:
    worker, _ = joined(side, Peer(side, ONE))
    side.render(work(worker, run_until=1.5), 0.0)
    side.receive(ONE, [], 1.0)
    assert side.advance(2.5) == [
        PeerLeft(worker, "its connection ended and the worker did not come back")
    ]


def test_a_late_result_that_is_too_large_is_nobodys_and_its_worker_starts_anew() -> None:
    side = make(MemoSettings(payload_limit=4))
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker, run_until=1.0), 0.0)
    side.advance(2.0)
    for at, payload in ((3.0, b"large"), (4.0, b"out")):
        sends = peer.say(MemoResult(id_, payload), at)
        assert sends == [disconnect_unknown(peer.address, id_, is_strict=True)]


# --- the desk without the rest of the side ------------------------------------------------------


def desk_with_a_worker(link: str = "memo") -> tuple[MemoWorkerHandler, PeerId, bytes]:
    table = MemoWorkers()
    desk = MemoWorkerHandler(link, lambda: "id", table, {"memo": MemoBodyCodec()}, MemoSettings())
    table.add_connection(ONE)
    (event,) = desk.ready(ONE + b"1111", MemoReady(("svc",)), 0.0)
    assert isinstance(event, WorkerJoined)
    return desk, event.worker, bytes.fromhex(event.worker.partition("/")[2])


@pytest.mark.parametrize(("said_ms", "told"), [(None, 2000), (7, 7)])
def test_a_worker_is_told_what_the_client_said_or_else_what_is_left(
    said_ms: int | None, told: int
) -> None:
    desk, worker, id_ = desk_with_a_worker()
    sends = desk.send_work(work(worker, run_until=3.0), said_ms, 1.0)
    assert said(sends) == [(ONE + b"1111", MemoJob(id_, "svc", told, b"in"))]


def test_workers_are_named_after_their_link() -> None:
    desk, worker, _ = desk_with_a_worker("memo2")
    assert worker.startswith("memo2/")
    assert desk.connection_ended(ONE, 1.0) == [PeerLeft(worker, "its connection ended")]
