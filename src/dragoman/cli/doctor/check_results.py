"""The results of checks: one line with a verdict each."""

from collections.abc import Callable, Iterable
from typing import Final

from dragoman.model.value import value

OK: Final = "ok"
#: The broker works, but something is not optimal, or a part of it would not work.
WARNING: Final = "warning"
#: A broker would not start here, or would not keep its guarantees.
BAD: Final = "bad"


@value
class CheckResult:
    """One line of `dragoman doctor`."""

    what: str
    verdict: str
    text: str


#: A check may return several results.
Check = Callable[[], Iterable[CheckResult]]


def ok(what: str, text: str) -> CheckResult:
    """Return a result that needs no action."""
    return CheckResult(what, OK, text)


def warning(what: str, text: str) -> CheckResult:
    """Return a result that should be looked at."""
    return CheckResult(what, WARNING, text)


def bad(what: str, text: str) -> CheckResult:
    """Return a result that must be fixed."""
    return CheckResult(what, BAD, text)


def run_checks(checks: Iterable[Check]) -> list[CheckResult]:
    """Run every check; a check that raises is a bad result."""
    results: list[CheckResult] = []
    for check in checks:
        try:
            results += check()
        except Exception as error:
            name = getattr(check, "__name__", "check").replace("_", " ")
            results.append(bad(name, f"could not be checked: {type(error).__name__}: {error}"))
    return results
