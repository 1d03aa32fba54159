"""Notes are decoded; other parts stay metadata."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.dcp.notes import (
    fault_note,
    read_fault,
    read_note,
    request_note,
    take_report,
    with_report,
    write_note,
)
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


def test_a_report_is_put_after_all_other_metadata_and_taken_off_again() -> None:
    tail = (b"m1", b"", b"d1", b"", b"d3")
    reported = with_report(tail, {"kind": "progress"})
    assert reported[0] == b"m1"
    assert reported[2:] == (b"", b"d1", b"", b"d3")
    assert take_report(reported) == (tail, {"kind": "progress"})


def test_a_request_note_is_no_report() -> None:
    tail = (write_note({"job": "j1"}), b"", b"d")
    assert take_report(tail) == (tail, None)
    assert request_note(tail) == {"job": "j1"}


def test_a_tail_without_metadata_has_neither() -> None:
    assert take_report((b"", b"d")) == ((b"", b"d"), None)
    assert request_note((b"", b"d")) is None


def test_a_fault_keeps_its_code_and_message() -> None:
    fault = Fault(FaultCode.NO_WORKER, "nobody")
    assert read_fault(fault_note(fault)) == fault


@pytest.mark.parametrize("code", [None, 7, [], "from_the_future"])
def test_a_fault_with_an_unknown_name_is_a_failed_task(code: object) -> None:
    assert read_fault({"code": code, "message": []}) == Fault(FaultCode.TASK_FAILED)
