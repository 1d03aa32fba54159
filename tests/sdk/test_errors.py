"""Faults become exceptions by name."""

import pytest

from dragoman.model.fault import Fault, FaultCode
from dragoman.sdk.errors import Cancelled, Denied, Expired, JobFailed, failure


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (FaultCode.TASK_FAILED, JobFailed),
        (FaultCode.DENIED, Denied),
        (FaultCode.RUN_TIMEOUT, Expired),
        (FaultCode.CANCELLED, Cancelled),
    ],
)
def test_the_exception_fits_the_fault(code: FaultCode, kind: type[JobFailed]) -> None:
    error = failure("j1", Fault(code, "words"))
    assert type(error) is kind
    assert "j1" in str(error)
    assert "words" in str(error)


def test_an_indefinite_fault_says_that_it_may_have_run() -> None:
    assert "may have run" in str(failure("j", Fault(FaultCode.WORKER_LOST)))
    assert "may have run" not in str(failure("j", Fault(FaultCode.TASK_FAILED)))
