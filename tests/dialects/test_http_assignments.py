"""The verdicts on reports of HTTP workers."""

from dragoman.dialects.http.assignments import LATE, REPEATED, TAKEN, HttpAssignments


def held() -> HttpAssignments:
    assignments = HttpAssignments(2)
    assignments.add("s", "j", 1)
    return assignments


def test_a_final_report_that_is_posted_twice_counts_once() -> None:
    assignments = held()
    assert assignments.judge("s", "j", 1, is_final=True) == TAKEN
    assert assignments.judge("s", "j", 1, is_final=True) == REPEATED
    assert assignments.judge("s", "j", 1, is_final=False) == REPEATED


def test_progress_counts_as_often_as_it_is_reported() -> None:
    assignments = held()
    assert assignments.judge("s", "j", 1, is_final=False) == TAKEN
    assert assignments.judge("s", "j", 1, is_final=False) == TAKEN


def test_a_report_on_another_attempt_job_or_session_is_late() -> None:
    assignments = held()
    assert assignments.judge("s", "j", 2, is_final=True) == LATE
    assert assignments.judge("s", "k", 1, is_final=True) == LATE
    assert assignments.judge("t", "j", 1, is_final=True) == LATE
    assert assignments.judge("s", "j", 1, is_final=True) == TAKEN


def test_a_session_that_resumes_keeps_what_it_still_holds() -> None:
    assignments = held()
    assignments.add("s", "k", 3)
    assignments.resume("s", ["k", "never"])
    assert assignments.judge("s", "k", 3, is_final=True) == TAKEN
    assert assignments.judge("s", "j", 1, is_final=True) == LATE


def test_a_report_is_recognised_after_its_session_has_ended() -> None:
    assignments = held()
    assignments.judge("s", "j", 1, is_final=True)
    assignments.forget("s")
    assert assignments.judge("s", "j", 1, is_final=True) == REPEATED


def test_only_so_many_final_reports_are_remembered() -> None:
    assignments = HttpAssignments(2)
    for job in "abc":
        assignments.add("s", job, 1)
        assignments.judge("s", job, 1, is_final=True)
    assert assignments.judge("s", "a", 1, is_final=True) == LATE
    assert assignments.judge("s", "c", 1, is_final=True) == REPEATED
