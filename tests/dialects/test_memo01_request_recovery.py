"""What the records tell a new process about an old one's requests."""

from dataclasses import replace

import pytest

from dragoman.dialects.memo01.request_recovery import RecoveredRequests, job_id_for, key_of_job
from dragoman.model.record import Kind, Record

KEY = (b"\x80\0\0\1", b"12345678")
JOB = job_id_for(KEY, "abc")


def record(kind: Kind, at: float = 0.0, job: str = JOB, **more: object) -> Record:
    return Record(1, at, kind, job, client="memo/c1", **more)  # type: ignore[arg-type]


SUBMITTED = record(Kind.SUBMITTED)
DISPATCHED = record(Kind.DISPATCHED, peer="memo/aa", attempt=2)


def test_a_jobs_name_carries_its_request() -> None:
    assert key_of_job(JOB) == KEY
    assert job_id_for(KEY, "abc") != job_id_for(KEY, "abd")


@pytest.mark.parametrize("job", ["", "j", "80000001", "xx-yy-zz"])
def test_the_names_of_other_jobs_carry_none_or_nothing_that_is_ever_asked_for(job: str) -> None:
    assert key_of_job(job) in (None, (bytes.fromhex("80000001"), b""), (b"", b""))


def test_a_job_that_has_not_ended_is_open_and_with_its_worker() -> None:
    past = RecoveredRequests("memo", [SUBMITTED, DISPATCHED], 0.0)
    assert past.open == {JOB: SUBMITTED}
    assert past.held() == [DISPATCHED]


@pytest.mark.parametrize("kind", [Kind.REQUEUED, Kind.FORWARDED, Kind.GATHERED])
def test_a_job_that_was_taken_back_is_with_nobody(kind: Kind) -> None:
    past = RecoveredRequests("memo", [SUBMITTED, DISPATCHED, record(kind)], 0.0)
    assert past.open == {JOB: SUBMITTED}
    assert past.held() == []


def test_only_a_late_success_is_worth_remembering() -> None:
    for state, at, is_known in [
        ("succeeded", 50.0, True),
        ("succeeded", 49.0, False),
        ("failed", 50.0, False),
    ]:
        ended = record(Kind.ENDED, at, state=state)
        past = RecoveredRequests("memo", [SUBMITTED, DISPATCHED, ended], 50.0)
        assert past.open == {}
        assert past.held() == []
        assert bool(past.answered) is is_known


def test_the_last_result_of_a_worker_is_known_until_it_leaves() -> None:
    ended = replace(record(Kind.ENDED, peer="memo/aa", nbytes=5), seq=7)
    late = replace(record(Kind.LATE, peer="memo/aa", nbytes=5), seq=8)
    empty = replace(record(Kind.LATE, peer="memo/aa"), seq=9)
    assert RecoveredRequests("memo", [ended], 0.0).last_result("memo/aa") == 7
    assert RecoveredRequests("memo", [ended, late, empty], 0.0).last_result("memo/aa") == 8
    assert RecoveredRequests("memo", [], 0.0).last_result("memo/aa") is None
    left = record(Kind.LEFT, peer="memo/aa")
    assert RecoveredRequests("memo", [ended, left], 0.0).last_result("memo/aa") is None


def test_other_links_are_not_ours() -> None:
    past = RecoveredRequests("memo_two", [SUBMITTED, DISPATCHED], 0.0)
    assert past.open == {}
    assert past.held() == []
