"""What has left memory is read back from the ledger."""

import asyncio

import pytest
from tests.core.builders import body, joined, submitted
from tests.server.engine_bench import Bench

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, RequestKind, SendReply, SendStatus, SendWork
from dragoman.core.events import JobSubmitted, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.ledger.base import Entry, LedgerDamaged
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.server.archive import Archive

JOB, CLIENT, WORKER = JobId("j1"), PeerId("nfp/c"), PeerId("nfp/w")
RESULT = Body("nfp", (b"42",))


def finished_job() -> MemoryLedger:
    broker, ledger = Broker(), MemoryLedger()
    effects: list[Effect] = []
    for event in (
        WorkerJoined(WORKER, WorkerName("w"), (ServiceName("math"),)),
        JobSubmitted(JOB, CLIENT, ServiceName("math"), Body("nfp", (b"?",))),
        ReplyReceived(WORKER, JOB, ReplyKind.FINAL, RESULT),
    ):
        effects += broker.handle(event, 1.0)
    entries = [Entry(e.record, e.body) for e in effects if isinstance(e, Append)]
    asyncio.run(ledger.append(entries))
    return ledger


def test_a_forgotten_job_is_answered_from_its_records_with_its_result() -> None:
    archive = Archive(finished_job())
    answer = archive.complete(SendStatus(CLIENT, JOB, RequestKind.RESULT, None), 2.0)
    assert answer.status is not None
    assert answer.status.state is JobState.SUCCEEDED
    assert answer.status.parts[0].body == RESULT
    assert answer.fault is None


def test_a_job_without_records_stays_unknown() -> None:
    question = SendStatus(CLIENT, JobId("nope"), RequestKind.RESULT, None)
    assert Archive(finished_job()).complete(question, 2.0) == question


def test_a_repeated_answer_gets_its_body_back() -> None:
    ledger = finished_job()
    reply = SendReply(CLIENT, JOB, ReplyKind.FINAL, ServiceName("math"), seq=ledger.last_seq)
    assert Archive(ledger).with_body(reply).body == RESULT


def test_a_body_that_is_not_durable_yet_is_found() -> None:
    archive = Archive(MemoryLedger())
    archive.hold(7, RESULT)
    assert archive.body(7) == RESULT
    finished = finished_job()
    entries = [Entry(r) for r in finished.read()]
    archive = Archive(finished)
    archive.hold(1, RESULT)
    archive.release(entries)
    assert archive.body(1) is None


@pytest.mark.parametrize("code", [FaultCode.DENIED, FaultCode.QUEUE_FULL])
def test_a_refused_request_is_not_answered_from_the_ledger(
    code: FaultCode,
) -> None:
    refused = SendStatus(CLIENT, JOB, RequestKind.RESULT, None, Fault(code, "no"))
    assert Archive(finished_job()).complete(refused, 2.0) == refused


def bench_without_memory() -> Bench:
    bench = Bench()
    bench.engine.broker.state.queues.body_limit = 0
    bench.turn(submitted("j1", text="on disk"))
    bench.write()
    return bench


def test_a_body_that_waits_on_disk_is_read_when_it_is_dispatched() -> None:
    bench = bench_without_memory()
    bench.turn(joined("w1"))
    (work,) = [each for each in bench.write() if isinstance(each, SendWork)]
    assert (work.body, work.body_seq) == (body("on disk"), 0)


def test_a_body_that_is_not_written_yet_is_in_the_archive() -> None:
    bench = Bench()
    bench.engine.broker.state.queues.body_limit = 0
    bench.turn(submitted("j1", text="not on disk yet", strict=False))
    (work,) = [each for each in bench.turn(joined("w1")) if isinstance(each, SendWork)]
    assert work.body == body("not on disk yet")


def test_a_job_whose_body_cannot_be_read_ends_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(seq: int) -> None:
        raise LedgerDamaged("record 1 is damaged", 1, 1)

    bench = bench_without_memory()
    monkeypatch.setattr(bench.ledger, "body", damaged)
    bench.turn(joined("w1"))
    bench.write()
    bench.turn()
    (reply,) = [each for each in bench.write() if isinstance(each, SendReply)]
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.UNDELIVERED
    assert "dragoman ledger verify" in reply.fault.message


def test_a_restored_side_learns_of_a_request_before_its_reply_leaves() -> None:
    bench, told = Bench(), []
    bench.engine.before_send = lambda effect, now: told.append(type(effect).__name__)
    bench.turn(submitted("j1", strict=False))
    assert told == ["SendReply"]
