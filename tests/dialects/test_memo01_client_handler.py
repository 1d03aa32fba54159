"""The broker's end, towards clients: terms, answers, resends, and content of other dialects."""

import cbor2
import pytest
from tests.dialects.memo01_peers import (
    ONE,
    SERVICE,
    TWO,
    Peer,
    final,
    joined,
    make,
    said,
    submitted,
    work,
)

from dragoman.core.effects import SendReply, SendWork
from dragoman.core.events import CreditGranted, Noted, ReplyKind, ReplyReceived
from dragoman.dialects.memo01.body_codec import TAG, MemoBodyCodec, write_fault
from dragoman.dialects.memo01.broker_side import MemoBrokerSide
from dragoman.dialects.memo01.settings import LONGEST_TIMEOUT_MS, MemoSettings
from dragoman.dialects.memo01.wire import MemoJob, MemoResult
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind
from dragoman.model.terms import Terms


@pytest.fixture
def side() -> MemoBrokerSide:
    return make()


# --- clients ------------------------------------------------------------------------------------


def test_a_job_is_submitted_on_the_terms_of_its_message(side: MemoBrokerSide) -> None:
    event = submitted(Peer(side).say(MemoJob(b"", "svc", 40_000, b"in")))
    assert event.service == "svc"
    assert event.body == Body("memo", (b"in",))
    assert event.client == "memo/c" + ONE.hex()
    assert event.terms == Terms(
        patience=10.0, queue_timeout=10.0, run_timeout=40.0, max_attempts=3, strict=False
    )


def test_a_memoised_service_is_submitted_as_such() -> None:
    peer = Peer(make(MemoSettings(memoized=frozenset({"pure"}))))
    assert submitted(peer.say(MemoJob(b"", "pure", 1000))).terms.memoize
    assert not submitted(peer.say(MemoJob(b"", "other", 1000))).terms.memoize


def test_the_result_goes_to_exactly_the_request_that_asked(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    jobs = {}
    for n in range(20):
        event = submitted(peer.say(MemoJob(b"", "svc", 1000, b"%d" % n)))
        jobs[event.job] = peer.address
    for job, address in reversed(jobs.items()):
        assert said(side.render(final(job), 1.0)) == [(address, MemoResult(b"", b"out"))]


def test_a_worker_is_told_the_clients_timeout_to_the_millisecond(side: MemoBrokerSide) -> None:
    worker, id_ = joined(side, Peer(side, TWO))
    event = submitted(Peer(side).say(MemoJob(b"", "svc", 12_345, b"in")))
    sends = side.render(
        SendWork(worker, event.job, 1, SERVICE, event.client, event.body, run_until=99.0), 50.0
    )
    assert said(sends)[0][1] == MemoJob(id_, "svc", 12_345, b"in")


@pytest.mark.parametrize("timeout", [0, -1, -2, -(2**63), -(2**64)])
def test_a_job_without_time_is_refused_by_silence_and_on_record(
    side: MemoBrokerSide, timeout: int
) -> None:
    (note,) = Peer(side).say(MemoJob(b"", "svc", timeout))
    assert isinstance(note, Noted)
    assert (note.kind, note.service) == (Kind.REFUSED, "svc")
    assert str(timeout) in note.detail


@pytest.mark.parametrize("timeout", [2**31, 2**32 + 300, 2**40, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_job_with_a_huge_timeout_has_the_longest(side: MemoBrokerSide, timeout: int) -> None:
    worker, id_ = joined(side, Peer(side, TWO))
    event = submitted(Peer(side).say(MemoJob(b"", "svc", timeout)))
    assert event.terms.run_timeout == LONGEST_TIMEOUT_MS / 1000
    sends = side.render(SendWork(worker, event.job, 1, SERVICE, event.client, event.body), 0.0)
    assert said(sends)[0][1] == MemoJob(id_, "svc", LONGEST_TIMEOUT_MS)


@pytest.mark.parametrize("timeout", [1, 5, 1000, 3_600_000, 24 * 3_600_000])
def test_timeouts_from_milliseconds_to_hours_are_kept(side: MemoBrokerSide, timeout: int) -> None:
    event = submitted(Peer(side).say(MemoJob(b"", "svc", timeout)))
    assert event.terms.run_timeout == timeout / 1000


def test_a_payload_beyond_the_limit_is_refused_by_silence() -> None:
    peer = Peer(make(MemoSettings(payload_limit=10)))
    assert submitted(peer.say(MemoJob(b"", "svc", 1000, b"x" * 10)))
    (note,) = peer.say(MemoJob(b"", "svc", 1000, b"x" * 11))
    assert isinstance(note, Noted)


def test_a_result_beyond_the_limit_is_a_fault_and_the_worker_goes_on() -> None:
    side = make(MemoSettings(payload_limit=10))
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    reply, credit = peer.say(MemoResult(id_, b"x" * 11))
    assert isinstance(reply, ReplyReceived)
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.TOO_LARGE
    assert credit == CreditGranted(worker, request=0x80000001)


def test_the_reserved_service_cannot_be_asked_for(side: MemoBrokerSide) -> None:
    (note,) = Peer(side).say(MemoJob(b"", "all", 1000))
    assert isinstance(note, Noted)


@pytest.mark.parametrize("kind", [k for k in ReplyKind if k is not ReplyKind.FINAL])
def test_a_client_hears_nothing_but_the_end(side: MemoBrokerSide, kind: ReplyKind) -> None:
    event = submitted(Peer(side).say(MemoJob(b"", "svc", 1000)))
    assert side.render(SendReply(event.client, event.job, kind, SERVICE), 0.0) == []


def test_a_fault_is_silence_and_a_resend_is_a_new_job(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    first = submitted(peer.say(MemoJob(b"", "svc", 1000)))
    fault = Fault(FaultCode.QUEUE_TIMEOUT, "nobody came")
    assert side.render(final(first.job, fault=fault, state=JobState.EXPIRED), 11.0) == []
    assert submitted(peer.again(MemoJob(b"", "svc", 1000), 12.0)).job != first.job


# --- resends and reconnects of clients ----------------------------------------------------------


def test_a_resent_job_is_the_same_job_and_is_answered_once(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    event = submitted(peer.say(MemoJob(b"", "svc", 1000)))
    for _ in range(5):
        assert peer.again(MemoJob(b"", "svc", 1000)) == []
    assert len(side.render(final(event.job), 1.0)) == 1
    assert side.resends == 5


def test_a_job_resent_after_a_reconnect_is_the_same_job(side: MemoBrokerSide) -> None:
    before, after = Peer(side, ONE), Peer(side, TWO)
    event = submitted(before.say(MemoJob(b"", "svc", 1000)))
    side.receive(ONE, [], 1.0)
    assert after.say(MemoJob(b"", "svc", 1000), 1.1) == []
    assert said(side.render(final(event.job), 2.0)) == [(after.address, MemoResult(b"", b"out"))]


def test_a_job_resent_before_the_old_connection_is_seen_to_end_is_answered_on_both(
    side: MemoBrokerSide,
) -> None:
    before, after = Peer(side, ONE), Peer(side, TWO)
    event = submitted(before.say(MemoJob(b"", "svc", 1000)))
    assert after.say(MemoJob(b"", "svc", 1000)) == []
    addresses = [address for address, _ in said(side.render(final(event.job), 2.0))]
    assert addresses == [before.address, after.address]


def test_a_job_resent_after_its_answer_was_lost_is_answered_again(side: MemoBrokerSide) -> None:
    before, after = Peer(side, ONE), Peer(side, TWO)
    event = submitted(before.say(MemoJob(b"", "svc", 1000)))
    side.receive(ONE, [], 1.0)
    assert side.render(final(event.job), 2.0) == []
    assert submitted(after.say(MemoJob(b"", "svc", 1000), 3.0)).job == event.job
    assert said(side.render(final(event.job), 3.0)) == [(after.address, MemoResult(b"", b"out"))]


def test_an_answer_lost_with_a_connection_that_still_seems_alive_is_given_again(
    side: MemoBrokerSide,
) -> None:
    before, after = Peer(side, ONE), Peer(side, TWO)
    event = submitted(before.say(MemoJob(b"", "svc", 1000)))
    side.render(final(event.job), 1.0)
    assert submitted(after.say(MemoJob(b"", "svc", 1000), 2.0)).job == event.job
    assert (after.address, MemoResult(b"", b"out")) in said(side.render(final(event.job), 2.0))


def test_a_request_is_new_after_the_window(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    event = submitted(peer.say(MemoJob(b"", "svc", 1000)))
    side.render(final(event.job), 1.0)
    other = submitted(peer.say(MemoJob(b"", "svc", 1000, b"other"), 100.0))
    side.render(final(other.job), 100.0)
    again = Peer(side)
    assert submitted(again.say(MemoJob(b"", "svc", 1000), 100.0)).job != event.job


def test_the_same_id_with_another_body_is_another_job(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    event = submitted(peer.say(MemoJob(b"", "svc", 1000, b"a")))
    assert submitted(peer.again(MemoJob(b"", "svc", 1000, b"b"))).job != event.job


def test_the_answer_to_a_client_that_is_gone_goes_nowhere(side: MemoBrokerSide) -> None:
    event = submitted(Peer(side).say(MemoJob(b"", "svc", 1000)))
    side.receive(ONE, [], 1.0)
    assert side.render(final(event.job), 2.0) == []
    assert side.render(final(JobId("never heard of")), 2.0) == []


# --- crossing over ------------------------------------------------------------------------------


def test_a_call_of_another_dialect_is_dressed_for_the_worker(side: MemoBrokerSide) -> None:
    worker, _ = joined(side, Peer(side))
    ((_, message),) = said(side.render(work(worker, body=Body("other", (b"hi",))), 0.0))
    assert isinstance(message, MemoJob)
    assert MemoBodyCodec().read_call(Body("memo", (message.payload,))) == Call("echo", ("hi",))


def test_an_untagged_cbor_answer_to_a_dressed_call_is_a_value(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker, body=Body("other", (b"hi",))), 0.0)
    reply = peer.say(MemoResult(id_, cbor2.dumps(5)))[0]
    assert isinstance(reply, ReplyReceived)
    assert MemoBodyCodec().read_answer(reply.body) == Answer(value=5)


def test_an_answer_inside_the_dialect_is_not_touched(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    reply = peer.say(MemoResult(id_, cbor2.dumps(5)))[0]
    assert isinstance(reply, ReplyReceived)
    assert reply.body == Body("memo", (cbor2.dumps(5),))


@pytest.mark.parametrize(
    ("request_payload", "expected"),
    [(TAG + cbor2.dumps({"task": "t"}), TAG + cbor2.dumps("42")), (b"raw", cbor2.dumps("42"))],
)
def test_an_answer_of_another_dialect_has_the_tag_if_the_request_had(
    side: MemoBrokerSide, request_payload: bytes, expected: bytes
) -> None:
    event = submitted(Peer(side).say(MemoJob(b"", "svc", 1000, request_payload)))
    ((_, message),) = said(side.render(final(event.job, body=Body("other", (b"42",))), 1.0))
    assert message == MemoResult(b"", expected)


def test_an_answer_that_cannot_be_dressed_is_reported_and_the_request_dropped(
    side: MemoBrokerSide,
) -> None:
    peer = Peer(side)
    event = submitted(peer.say(MemoJob(b"", "svc", 1000)))
    with pytest.raises(Unmappable):
        side.render(final(event.job, body=Body("other", (b"failed",))), 1.0)
    assert submitted(peer.again(MemoJob(b"", "svc", 1000))).job != event.job


def test_a_fault_told_by_one_of_our_workers_is_a_fault(side: MemoBrokerSide) -> None:
    peer = Peer(side)
    worker, id_ = joined(side, peer)
    side.render(work(worker), 0.0)
    fault = Fault(FaultCode.TASK_FAILED, "ZeroDivisionError")
    reply = peer.say(MemoResult(id_, write_fault(fault)))[0]
    assert isinstance(reply, ReplyReceived)
    assert reply.fault == fault
