"""Every fault has a status, and our own peers get the fault back from it."""

import pytest

from dragoman.dialects.nfp.faults import STATUS, code_of, status_of
from dragoman.model.fault import FaultCode


@pytest.mark.parametrize("code", FaultCode)
def test_every_fault_has_a_status_that_norfabs_client_takes_for_a_failure(code: FaultCode) -> None:
    assert status_of(code) in {b"400", b"404", b"408", b"417", b"500"}
    assert code_of(STATUS[code], code.value) is code


def test_the_text_knows_no_404() -> None:
    assert status_of(FaultCode.UNKNOWN_JOB) == b"404"
    assert status_of(FaultCode.UNKNOWN_JOB, is_binary=True) == b"400"


def test_a_bare_status_has_a_likely_meaning() -> None:
    assert code_of(b"400") is FaultCode.NO_WORKER
    assert code_of(b"599", "no such code") is FaultCode.TASK_FAILED
