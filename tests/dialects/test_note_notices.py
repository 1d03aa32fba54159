"""What a client with notes sends and reads."""

import pytest

from dragoman.dialects.note_notices import READERS, service_bytes, submission_note
from dragoman.dialects.parts import answer_parts, pack
from dragoman.dialects.peer_sides import (
    Chunk,
    Dispatched,
    Finished,
    InputAsked,
    Progress,
    Queued,
    StatusNotice,
    Submission,
)
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.target import parse_target

JOB = JobId("j")


def read(kind: str, *data: bytes, **note: object) -> object:
    (found,) = READERS[kind](JOB, note, data)
    return found


def test_a_note_has_what_was_set_and_nothing_else() -> None:
    plain = Submission(JOB, ServiceName("s"), Call("t"))
    assert submission_note(plain) == {"job": JOB, "task": "t"}
    full = Submission(
        JOB, ServiceName("s"), Call("t", timeout=5.0), parse_target("all"), 3, "k", {"retries": 1}
    )
    wanted = {"timeout": 5.0, "priority": 3, "key": "k", "options": {"retries": 1}, "target": "all"}
    assert submission_note(full) == {"job": JOB, "task": "t"} | wanted


def test_a_service_that_is_no_text_goes_as_its_bytes() -> None:
    assert service_bytes("math") == b"math"
    assert service_bytes("0xff00") == b"\xff\x00"


def test_a_result_has_its_worker_and_its_state() -> None:
    done = read("result", *answer_parts(Answer(5)), worker="w", resources=["r"])
    answer = Answer(5, worker="w", resources=("r",))
    assert done == Finished(JOB, (answer,), None, JobState.SUCCEEDED)
    fault = Fault(FaultCode.TASK_FAILED, "no")
    failed = read("result", *answer_parts(Answer(fault=fault)))
    assert failed == Finished(JOB, (Answer(fault=fault),), fault, JobState.FAILED)


def test_a_fault_is_of_a_worker_or_of_the_broker() -> None:
    fault = Fault(FaultCode.CANCELLED, "no")
    told = {"code": "cancelled", "message": "no", "state": "cancelled"}
    assert read("fault", **told) == Finished(JOB, (), fault, JobState.CANCELLED)
    by = read("fault", **told, worker="w")
    assert by == Finished(JOB, (Answer(fault=fault, worker="w"),), fault, JobState.CANCELLED)


def test_gathered_results_are_one_answer_for_each_worker() -> None:
    each = {
        "a": {"value": 1, "resources": ["r"]},
        "b": {"value": b"raw"},
        "c": {"fault": "task_failed", "message": "no"},
        "d": 4,
    }
    done = read("gathered", pack(each), state="failed")
    assert isinstance(done, Finished)
    fault = Fault(FaultCode.TASK_FAILED, "no")
    assert done.answers == (
        Answer(1, worker="a", resources=("r",)),
        Answer(raw=b"raw", worker="b"),
        Answer(fault=fault, worker="c"),
        Answer(4, worker="d"),
    )
    assert (done.fault, done.state) == (fault, JobState.FAILED)


@pytest.mark.parametrize("data", [(), (b"\xc1",), (pack([1]),)])
def test_gathered_results_that_cannot_be_read_are_none(data: tuple[bytes, ...]) -> None:
    assert read("gathered", *data, state="odd") == Finished(JOB, (), None, JobState.FAILED)


def test_everything_before_the_end() -> None:
    value = answer_parts(Answer("x"))
    assert read("queued") == Queued(JOB)
    assert read("dispatched", workers=["w", 1]) == Dispatched(JOB, (WorkerName("w"),))
    assert read("dispatched", workers=5) == Dispatched(JOB, ())
    assert read("progress", *value, worker="w") == Progress(JOB, "x", "w")
    assert read("chunk", pack(b"raw"), worker="w") == Chunk(JOB, b"raw", "w")
    assert read("chunk", pack("x")) == Chunk(JOB, pack("x"), "")
    assert read("input_asked", *value, request="q", worker="w") == InputAsked(JOB, "q", "x", "w")
    assert read("status", state="open", detail=5) == StatusNotice(JOB, "open", "", "")
