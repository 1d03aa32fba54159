"""Records are built from what they are about; own fields come last."""

from dataclasses import fields, replace

import pytest
from tests.core.builders import Stage, body, joined, submitted

from dragoman.core.events import JobSubmitted
from dragoman.core.records import build_record, part_record, submitted_record
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.parent import Parent
from dragoman.model.record import Kind, Record
from dragoman.model.target import Named
from dragoman.model.terms import Terms

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


@pytest.mark.parametrize("has_worker", [True, False])
@pytest.mark.parametrize("failure", [None, Fault(FaultCode.TASK_FAILED, "no luck")])
@pytest.mark.parametrize("content", [None, body()])
def test_a_record_by_position_equals_the_one_by_keyword(
    stage: Stage, has_worker: bool, failure: Fault | None, content: Body | None
) -> None:
    part, by = stage.job("j1").parts[0], stage.worker() if has_worker else None
    part.index, part.task = 4, "resize"
    own = {"state": "failed", "attempt": 9, "count": 7, "terms": "{}"}
    found = part_record(
        *(1, 2.0, Kind.ENDED, part),
        by=by,
        state="failed",
        attempt=9,
        count=7,
        failure=failure,
        body=content,
        terms="{}",
    )
    assert found == build_record(1, 2.0, Kind.ENDED, part, by, failure, content, own)


@pytest.mark.parametrize("parent", [None, Parent("p1", 3)])
def test_a_record_of_a_new_job_has_all_of_its_submission(parent: Parent | None) -> None:
    terms = Terms(priority=3, strict=False, timeout=5.0)
    event = JobSubmitted(
        JobId("j1"),
        PeerId("nfp/c1"),
        ServiceName("a"),
        body(),
        Named((WorkerName("w1"),)),
        replace(terms, parent=parent),
        "resize",
        "k",
        Principal("p"),
    )
    found = submitted_record(1, 2.0, event, terms, dialect="zss", digest="d", deadline_at=7.0)
    assert found == Record(
        1,
        2.0,
        Kind.SUBMITTED,
        job="j1",
        service="a",
        task="resize",
        client="nfp/c1",
        principal="p",
        dialect="zss",
        target="w1",
        state="queued",
        nbytes=body().size,
        digest="d",
        priority=3,
        key="k",
        terms='{"timeout":5.0,"priority":3,"strict":false}',
        submitted_at=2.0,
        deadline_at=7.0,
        strict=False,
        parent="p1" if parent else "",
        position=3 if parent else 0,
    )
