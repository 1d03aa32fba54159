"""What a check finds: one line with a verdict."""

from collections.abc import Callable, Iterable
from typing import Final

from dragoman.model.value import value

OK: Final = "ok"
#: It works, and something could be better, or is needed for a part only.
WARNING: Final = "warning"
#: A broker would not start here, or not keep what it promises.
BAD: Final = "bad"


@value
class CheckResult:
    """One line of the doctor's."""

    what: str
    verdict: str
    words: str


#: A check may find several things.
Check = Callable[[], Iterable[CheckResult]]


def ok(what: str, words: str) -> CheckResult:
    """Say that something is well."""
    return CheckResult(what, OK, words)


def warning(what: str, words: str) -> CheckResult:
    """Say that something could be better."""
    return CheckResult(what, WARNING, words)


def bad(what: str, words: str) -> CheckResult:
    """Say that something is wrong."""
    return CheckResult(what, BAD, words)


def run_checks(checks: Iterable[Check]) -> list[CheckResult]:
    """Run every check; one that fails itself is a finding too."""
    found: list[CheckResult] = []
    for check in checks:
        try:
            found += check()
        except Exception as error:
            name = getattr(check, "__name__", "check").replace("_", " ")
            found.append(bad(name, f"could not be checked: {type(error).__name__}: {error}"))
    return found
