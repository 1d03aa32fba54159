"""The checker of results finds one that is given out too long, or not long enough."""

import pytest

from dragoman.core.effects import JobStatus, PartStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms, terms_text
from dragoman.testing.result_checker import ResultChecker

ME, JOB, SERVICE = PeerId("local/c"), JobId("j1"), ServiceName("a")
TTL = terms_text(Terms(result_ttl=5.0))


def checker(*more: Record, parent: str = "") -> ResultChecker:
    found = ResultChecker()
    found.take(Record(1, 0.0, Kind.SUBMITTED, JOB, terms=TTL, parent=parent))
    found.take(Record(2, 10.0, Kind.ENDED, JOB))
    for record in more:
        found.take(record)
    return found


def status(fault: Fault | None = None) -> SendStatus:
    part = PartStatus(WorkerName("w"), JobState.SUCCEEDED, seq=0 if fault else 2)
    found = JobStatus(JOB, JobState.SUCCEEDED, SERVICE, ME, (part,), fault)
    return SendStatus(ME, JOB, RequestKind.RESULT, found, fault)


def reply() -> SendReply:
    body = Body("local", (b"r",))
    state = JobState.SUCCEEDED
    return SendReply(ME, JOB, ReplyKind.FINAL, SERVICE, body=body, state=state)


GONE = Fault(FaultCode.RESULT_GONE, "gone")


@pytest.mark.parametrize("answer", [status(), reply()])
def test_a_result_may_be_given_out_until_it_expires(answer: SendStatus | SendReply) -> None:
    checker().check(answer, JOB, 14.9)
    with pytest.raises(AssertionError, match="is given out, but is gone"):
        checker().check(answer, JOB, 15.0)


def test_a_result_may_not_be_denied_too_soon() -> None:
    checker().check(status(GONE), JOB, 15.0)
    with pytest.raises(AssertionError, match="too soon"):
        checker().check(status(GONE), JOB, 14.9)


def test_a_forgotten_result_is_gone() -> None:
    found = checker(Record(3, 11.0, Kind.RESULT_FORGOTTEN, JOB))
    with pytest.raises(AssertionError, match="is gone"):
        found.check(reply(), JOB, 11.0)


def test_a_step_of_an_open_job_is_there() -> None:
    checker(parent="p").check(reply(), JOB, 99.0)
    with pytest.raises(AssertionError, match="is gone"):
        checker(Record(3, 11.0, Kind.ENDED, "p"), parent="p").check(reply(), JOB, 99.0)


def test_an_open_job_has_nothing_to_forget() -> None:
    with pytest.raises(AssertionError, match="before its end"):
        ResultChecker().take(Record(1, 0.0, Kind.RESULT_FORGOTTEN, JOB))
