"""Jobs and parts: how a record creates them, and which need no binding."""

import pytest

from dragoman.core.jobs import Job, JobPart, is_single
from dragoman.model.job import JobState
from dragoman.model.names import WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.target import parse_target
from dragoman.model.terms import Terms


def job(target: str = "any", service: str = "a") -> Job:
    said = {"service": service, "client": "nfp/c", "task": "t", "key": "k", "deadline_at": 9.0}
    record = Record(7, 1.5, Kind.SUBMITTED, "j1", **said)  # type: ignore[arg-type]
    return Job(record, parse_target(target), Terms(), None)


def test_a_job_is_what_its_record_says() -> None:
    made = job()
    assert (made.id, made.client_job_id, made.client) == ("j1", "j1", "nfp/c")
    assert (made.submitted_at, made.deadline_at, made.submit_seq) == (1.5, 9.0, 7)
    assert (made.state, made.is_final, made.parts) == (JobState.QUEUED, False, [])


@pytest.mark.parametrize(
    ("target", "service", "expected"),
    [
        ("any", "a", True),
        ("labels:zone=eu", "a", True),
        ("all", "a", False),
        ("w1,w2", "a", False),
        ("resource:r1", "a", False),
        ("any", "all", False),
    ],
)
def test_a_job_for_one_worker_of_its_choice_needs_no_binding(
    target: str, service: str, expected: bool
) -> None:
    assert is_single(job(target, service)) is expected


def test_a_part_begins_with_what_its_job_is_for() -> None:
    made = job("resource:r1,r2")
    part = JobPart(made, 1, WorkerName("w1"))
    assert (part.key, part.bound, part.state) == (("j1", 1), "w1", JobState.QUEUED)
    assert (part.service, part.task, part.request_seq) == ("a", "t", 7)
    assert part.resources == ("r1", "r2")
    assert JobPart(job(), 0, None).resources == ()


def test_only_parts_that_are_not_over_are_open() -> None:
    made = job("all")
    made.parts = [JobPart(made, 0, WorkerName("w1")), JobPart(made, 1, WorkerName("w2"))]
    made.parts[0].state = JobState.SUCCEEDED
    assert made.open_parts() == [made.parts[1]]


def test_two_jobs_that_differ_in_one_part_are_recorded_as_different() -> None:
    one, other = job(), job()
    one.parts, other.parts = [JobPart(one, 0, None)], [JobPart(other, 0, None)]
    assert one.as_recorded() == other.as_recorded()
    other.parts[0].attempt = 1
    assert one.as_recorded() != other.as_recorded()
