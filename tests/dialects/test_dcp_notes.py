"""Where notes are in DCP messages."""

from dragoman.dialects.dcp.notes import request_note, take_report, with_report
from dragoman.dialects.notes import write_note


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
