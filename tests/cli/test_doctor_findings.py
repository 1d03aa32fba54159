"""What a check finds."""

from collections.abc import Iterator

from dragoman.cli.doctor.findings import BAD, OK, WARNING, CheckResult, bad, ok, run_checks, warning


def fine() -> Iterator[CheckResult]:
    yield ok("a", "well")
    yield warning("b", "so so")


def broken_check() -> Iterator[CheckResult]:
    raise OSError("no such thing")


def test_a_check_that_fails_itself_is_a_finding_and_the_others_go_on() -> None:
    found = run_checks([broken_check, fine])
    assert [f.verdict for f in found] == [BAD, OK, WARNING]
    assert found[0] == bad("broken check", "could not be checked: OSError: no such thing")
