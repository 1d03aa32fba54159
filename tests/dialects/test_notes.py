"""Notes are decoded; other parts are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.notes import fault_note, read_fault, read_note, write_note
from dragoman.model.fault import Fault, FaultCode


def test_a_note_is_read_as_it_was_written() -> None:
    assert read_note(write_note({"job": "j1", "timeout": 2.5})) == {"job": "j1", "timeout": 2.5}


@pytest.mark.parametrize(
    "part", [b"", b"m", b"dragoman", b"dragoman:", b"dragoman:[]", b"dragoman:{", b"dragoman:\xff"]
)
def test_what_is_no_note_is_plain_metadata(part: bytes) -> None:
    assert read_note(part) is None


def test_a_note_too_long_to_be_ours_is_plain_metadata() -> None:
    assert read_note(write_note({"job": "j" * 300_000})) is None


@given(st.binary())
def test_no_bytes_after_the_prefix_raise(rest: bytes) -> None:
    said = read_note(b"dragoman:" + rest)
    assert said is None or isinstance(said, dict)


def test_a_fault_keeps_its_code_and_message() -> None:
    fault = Fault(FaultCode.NO_WORKER, "nobody")
    assert read_fault(fault_note(fault)) == fault


@pytest.mark.parametrize("code", [None, 7, [], "from_the_future"])
def test_a_fault_with_an_unknown_name_is_a_failed_task(code: object) -> None:
    assert read_fault({"code": code, "message": []}) == Fault(FaultCode.TASK_FAILED)
