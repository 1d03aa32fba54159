"""The words of `cancel()`."""

import pytest

from dragoman.dialects.peer_sides import Finished, StatusNotice
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.sdk.cancel_outcomes import CANCELLED, FINISHED, UNCONFIRMED, UNKNOWN, cancel_outcome

JOB = JobId("j1")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (FaultCode.CANCELLED, CANCELLED),
        (FaultCode.CANCEL_UNCONFIRMED, UNCONFIRMED),
        (FaultCode.UNKNOWN_JOB, UNKNOWN),
        (FaultCode.TASK_FAILED, FINISHED),
    ],
)
def test_an_end_tells_the_outcome_by_its_fault(code: FaultCode, outcome: str) -> None:
    assert cancel_outcome(Finished(JOB, fault=Fault(code, "any text"))) == outcome


@pytest.mark.parametrize(
    ("state", "detail", "outcome"),
    [
        (JobState.CANCELLED, "CANCELLED", CANCELLED),
        (JobState.CANCELLED, "cancelled before it started", CANCELLED),
        (JobState.CANCELLED, "CANCEL_NOT_CONFIRMED", UNCONFIRMED),
        (JobState.CANCELLED, "its worker cannot confirm and may still run it", UNCONFIRMED),
        (JobState.CANCELLED, "the worker was lost before it confirmed the cancel", UNCONFIRMED),
        (JobState.SUCCEEDED, "ALREADY_FINISHED", FINISHED),
        (JobState.EXPIRED, "", FINISHED),
        ("unknown", "job j1 is not known here", UNKNOWN),
        ("odd", "", "odd"),
    ],
)
def test_a_state_tells_the_outcome_in_the_same_words(state: str, detail: str, outcome: str) -> None:
    assert cancel_outcome(StatusNotice(JOB, state, detail)) == outcome


def test_an_end_without_a_fault_came_before_the_cancel() -> None:
    assert cancel_outcome(Finished(JOB)) == FINISHED
