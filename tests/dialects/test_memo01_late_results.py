"""Results of workers that are not known any more: whose they are, and for how long."""

import pytest

from dragoman.core.effects import LinkPast, RecoveredWork, SendWork
from dragoman.dialects.memo01 import late_results
from dragoman.dialects.memo01.late_results import LateResults, LostAssignment
from dragoman.dialects.memo01.workers import MemoWorker
from dragoman.model.body import EMPTY, Body
from dragoman.model.names import JobId, PeerId, ServiceName

ONE, TWO = b"connect1", b"connect2"
GIVEN, NEXT = ONE + b"1111", ONE + b"2222"


def busy(id_: bytes, job: str = "j") -> MemoWorker:
    """Make a worker that got a job as the answer to the request `GIVEN`."""
    worker = MemoWorker(id_, PeerId(f"memo/{id_.hex()}"), ONE + b"0000")
    worker.job, worker.attempt, worker.last_request = JobId(job), 2, GIVEN
    return worker


def work_for(worker: str, job: str, attempt: int) -> SendWork:
    client = PeerId("memo/c")
    return SendWork(PeerId(worker), JobId(job), attempt, ServiceName("s"), client, EMPTY)


@pytest.fixture
def late() -> LateResults:
    return LateResults()


def test_a_result_is_of_the_job_that_its_worker_was_given_last(late: LateResults) -> None:
    late.expect(busy(b"w"))
    assert late.take(b"w", NEXT, b"out") == LostAssignment(PeerId("memo/77"), JobId("j"), 2, GIVEN)
    assert late.take(b"w", NEXT, b"out") is None
    assert late.take(b"stranger", NEXT, b"out") is None


def test_an_older_result_that_is_sent_again_does_not_use_it_up(late: LateResults) -> None:
    late.expect(busy(b"w"))
    assert late.take(b"w", TWO + GIVEN[8:], b"the one before") is None
    assert late.take(b"w", NEXT, b"out") is not None


def test_nothing_is_expected_of_an_idle_worker_or_one_whose_job_never_left(
    late: LateResults,
) -> None:
    idle, waiting = busy(b"idle"), busy(b"waiting")
    idle.job, waiting.pending = None, b"JOB"
    late.expect(idle)
    late.expect(waiting)
    assert late.take(b"idle", NEXT, b"out") is None
    assert late.take(b"waiting", NEXT, b"out") is None


def test_the_oldest_are_forgotten_first(late: LateResults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_results, "_REMEMBERED", 2)
    for id_ in (b"a", b"b", b"c"):
        late.expect(busy(id_))
    found = [late.take(id_, NEXT, b"out") is not None for id_ in (b"a", b"b", b"c")]
    assert found == [False, True, True]


def test_a_new_process_knows_what_the_workers_of_the_old_one_held(late: LateResults) -> None:
    work = [
        RecoveredWork(work_for("memo/aa", "second", 1), 0.0, last_result_seq=2),
        RecoveredWork(work_for("memo/bb", "third", 3), 0.0),
    ]
    bodies = {2: Body("memo", (b"o", b"ut"))}
    late.restore(LinkPast(4, work=work), bodies.get)
    assert late.take(b"\xaa", NEXT, b"out") is None
    assert late.take(b"\xaa", NEXT, b"new") == LostAssignment(
        PeerId("memo/aa"), JobId("second"), 1, previous_payload=b"out", is_recovered=True
    )
    assert late.take(b"\xbb", NEXT, b"") == LostAssignment(
        PeerId("memo/bb"), JobId("third"), 3, is_recovered=True
    )


def test_a_new_process_tells_results_by_the_request_that_the_job_answered(
    late: LateResults,
) -> None:
    number = int.from_bytes(b"1111")
    work = [RecoveredWork(work_for("memo/aa", "j", 1), 0.0, last_result_seq=2, answers=number)]
    late.restore(LinkPast(4, work=work), {2: Body("memo", (b"out",))}.get)
    assert late.take(b"\xaa", TWO + b"1111", b"out") is None
    assert late.take(b"\xaa", TWO + b"2222", b"out") is not None


def test_only_jobs_of_an_earlier_process_can_be_known_as_undelivered(late: LateResults) -> None:
    work = [RecoveredWork(work_for("memo/aa", "j", 1), 0.0)]
    late.restore(LinkPast(4, work=work), lambda seq: None)
    late.expect(busy(b"w"))
    assert late.take_undelivered(b"w") is None
    assert late.take_undelivered(b"\xaa") is not None
    assert late.take_undelivered(b"\xaa") is None


def test_a_result_is_told_from_the_one_before_by_its_request_or_its_payload() -> None:
    known = LostAssignment(PeerId("memo/a"), JobId("j"), 1, answered=ONE + b"1111")
    assert known.is_previous_result(TWO + b"1111", b"anything")
    assert not known.is_previous_result(ONE + b"2222", b"anything")
    read = LostAssignment(PeerId("memo/a"), JobId("j"), 1, previous_payload=b"result")
    assert read.is_previous_result(TWO + b"1111", b"result")
    assert not read.is_previous_result(TWO + b"1111", b"another")
    first = LostAssignment(PeerId("memo/a"), JobId("j"), 1)
    assert not first.is_previous_result(TWO + b"1111", b"")
