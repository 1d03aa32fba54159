"""Records are built by keyword, from what they are about; own fields come last."""

from dataclasses import fields

import pytest
from tests.core.builders import Stage, body, joined, submitted

from dragoman.core.records import build_record
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, WorkerName
from dragoman.model.record import Kind, Record

DEFAULT = Record(1, 2.0, Kind.ENDED)


def changed(record: Record) -> dict[str, object]:
    """Return the fields that differ from a record about nothing."""
    names = (field.name for field in fields(Record))
    return {n: getattr(record, n) for n in names if getattr(record, n) != getattr(DEFAULT, n)}


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.tell(
        joined("w1", dialect="nfp"),
        submitted("j1", priority=3, timeout=50.0, strict=False),
        submitted("j2", target="all"),
    )
    return stage


def test_a_record_about_nothing_has_its_kind_and_position_only() -> None:
    assert build_record(1, 2.0, Kind.ENDED) == DEFAULT


def test_a_record_about_a_job_has_its_constants(stage: Stage) -> None:
    found = changed(build_record(1, 2.0, Kind.ENDED, stage.job("j1")))
    assert found == {
        "job": "j1",
        "service": "a",
        "client": "local/c1",
        "priority": 3,
        "submitted_at": 1000.0,
        "deadline_at": 1050.0,
        "strict": False,
    }


def test_a_record_about_a_part_has_those_of_its_job_and_its_own(stage: Stage) -> None:
    part = stage.job("j1").parts[0]
    of_job = changed(build_record(1, 2.0, Kind.ENDED, stage.job("j1")))
    part.index, part.task = 4, "resize"
    found = changed(build_record(1, 2.0, Kind.ENDED, part))
    own = {"part": 4, "attempt": 1, "task": "resize", "worker": "w1", "peer": "local/w1"}
    assert found == of_job | own


def test_a_record_about_a_session_has_its_worker_and_its_only_service(stage: Stage) -> None:
    worker = stage.worker()
    found = changed(build_record(1, 2.0, Kind.LEFT, worker))
    own = {"worker": "w1", "peer": "local/w1", "dialect": "nfp", "service": "a"}
    assert found == {"kind": Kind.LEFT} | own
    worker.services = (*worker.services, *worker.services)
    assert build_record(1, 2.0, Kind.LEFT, worker).service == ""


def test_the_worker_that_caused_it_a_failure_and_a_body_are_filled_in(stage: Stage) -> None:
    part = stage.job("j1").parts[0]
    part.worker, part.peer = WorkerName(""), PeerId("")
    fault = Fault(FaultCode.TASK_FAILED, "no luck")
    record = build_record(1, 2.0, Kind.ENDED, part, stage.worker(), fault, body())
    assert (record.worker, record.peer, record.dialect) == ("w1", "local/w1", "nfp")
    assert (record.fault, record.detail) == ("task_failed", "no luck")
    assert (record.nbytes, record.digest) == (body().size, body().digest())


def test_own_fields_override_all_else(stage: Stage) -> None:
    fault = Fault(FaultCode.TASK_FAILED, "no luck")
    own = {"service": "b", "detail": "why", "attempt": 9}
    part = stage.job("j1").parts[0]
    record = build_record(1, 2.0, Kind.ENDED, part, failure=fault, fields=own)
    assert (record.service, record.detail, record.attempt) == ("b", "why", 9)


def test_a_field_that_no_record_has_is_an_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        build_record(1, 2.0, Kind.ENDED, fields={"colour": "red"})
