"""The attempts of a job, read from its records."""

from typing import Any

from dragoman.core.attempts import Attempt, attempts
from dragoman.model.record import Kind, Record


def record(kind: Kind, at: float, **more: Any) -> Record:
    return Record(int(at), at, kind, "j", **more)


def sent(at: float, attempt: int, worker: str, part: int = 0) -> Record:
    return record(Kind.DISPATCHED, at, attempt=attempt, worker=worker, part=part, dialect="nfp")


def test_a_job_that_was_never_sent_has_none() -> None:
    assert attempts([record(Kind.SUBMITTED, 1.0)]) == []


def test_a_lost_worker_ends_an_attempt_and_the_next_one_runs() -> None:
    lost = record(Kind.REQUEUED, 5.0, attempt=1, state="queued", fault="worker_lost")
    assert attempts(
        [record(Kind.SUBMITTED, 1.0), sent(2.0, 1, "w1"), lost, sent(6.0, 2, "w2")]
    ) == [
        Attempt(1, 0, "w1", "nfp", 2.0, 5.0, "worker_lost"),
        Attempt(2, 0, "w2", "nfp", 6.0),
    ]


def test_the_end_of_a_job_ends_its_attempt_with_the_fault_or_the_state() -> None:
    good = record(Kind.ENDED, 4.0, state="succeeded")
    assert [each.outcome for each in attempts([sent(2.0, 1, "w"), good])] == ["succeeded"]
    bad = record(Kind.ENDED, 4.0, state="failed", fault="task_failed")
    assert [each.outcome for each in attempts([sent(2.0, 1, "w"), bad])] == ["task_failed"]


def test_each_part_of_a_job_for_all_workers_has_its_own() -> None:
    records = [
        *(sent(2.0, 1, "w1", part=0), sent(3.0, 1, "w2", part=1)),
        record(Kind.GATHERED, 4.0, part=1, state="failed", fault="task_failed"),
        record(Kind.ENDED, 5.0, state="succeeded"),
    ]
    assert [(each.worker, each.ended_at, each.outcome) for each in attempts(records)] == [
        ("w1", 5.0, "succeeded"),
        ("w2", 4.0, "task_failed"),
    ]


def test_a_job_that_is_passed_on_ends_one_attempt_and_begins_another() -> None:
    passed = record(Kind.FORWARDED, 3.0, service="next")
    found = attempts([sent(2.0, 1, "w1"), passed, sent(3.5, 1, "w2")])
    assert [each.outcome for each in found] == ["forwarded", "running"]
