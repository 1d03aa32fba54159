"""What a check finds."""

from collections.abc import Iterator

from dragoman.cli.doctor.check_results import (
    BAD,
    OK,
    WARNING,
    CheckResult,
    bad,
    ok,
    run_checks,
    warning,
)


def fine() -> Iterator[CheckResult]:
    yield ok("a", "well")
    yield warning("b", "so so")


def broken_check() -> Iterator[CheckResult]:
    raise OSError("no such thing")


def test_a_check_that_fails_itself_is_a_finding_and_the_others_go_on() -> None:
    results = run_checks([broken_check, fine])
    assert [f.verdict for f in results] == [BAD, OK, WARNING]
    assert results[0] == bad("broken check", "could not be checked: OSError: no such thing")
