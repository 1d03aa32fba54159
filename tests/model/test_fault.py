"""Faults: which of them are indefinite."""

import pytest

from dragoman.model.fault import Fault, FaultCode

#: After these the work may have happened. Changing a line here changes what callers may repeat.
INDEFINITE = {"run_timeout", "job_timeout", "worker_lost", "exhausted", "cancel_unconfirmed"}


@pytest.mark.parametrize("code", FaultCode)
def test_a_fault_is_indefinite_exactly_when_the_work_may_have_happened(code: FaultCode) -> None:
    assert Fault(code).is_definite == (code not in INDEFINITE)


def test_every_indefinite_fault_exists() -> None:
    assert set(FaultCode) >= INDEFINITE


@pytest.mark.parametrize("code", FaultCode)
def test_a_code_is_written_as_its_name_in_small_letters(code: FaultCode) -> None:
    assert str(code) == code.name.lower()
    assert FaultCode(str(code)) is code


def test_faults_with_the_same_code_and_words_are_equal() -> None:
    assert Fault(FaultCode.DENIED, "no") == Fault(FaultCode.DENIED, "no")
    assert Fault(FaultCode.DENIED, "no") != Fault(FaultCode.DENIED, "never")
