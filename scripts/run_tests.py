"""Run the test suites one after another, the quick ones first, and add up what they say.

Each suite is a process of its own, so that a thousand peers or a Java machine left over from
one cannot disturb the next. `run_tests.py unit sim` runs only those two.

Many tests are about real processes, sockets and clocks, and a busy machine can be late for them.
A few failures of a suite are therefore run once more, alone; what passes then is counted as passed
and named as having needed it. What fails twice has failed.
"""

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

#: Marked suites in the order they run. A test with several marks belongs to the last of them.
MARKED = ("sim", "interop", "spark", "scale", "crash")
SUITES = ("unit", *MARKED)
NO_TESTS = 5
#: More failures than this are no accident.
SECOND_CHANCES = 8


@dataclass
class Outcome:
    """How one suite went."""

    suite: str
    code: int
    passed: int
    failed: int
    skipped: int
    seconds: float
    #: Tests that passed only when they were run again.
    again: int = 0


def expression(suite: str) -> str:
    """Say which tests belong to a suite, so that every test belongs to exactly one."""
    later = MARKED if suite == "unit" else MARKED[MARKED.index(suite) + 1 :]
    wanted = [] if suite == "unit" else [suite]
    return " and ".join(wanted + [f"not {mark}" for mark in later])


def run(suite: str, report: Path) -> Outcome:
    """Run one suite in a process of its own."""
    print(f"\n=== {suite}: pytest -m '{expression(suite)}'", flush=True)
    started = time.monotonic()
    code = pytest(suite, report, "--durations=5")
    passed, failed, skipped = totals(report)
    again = 0
    if code == 1 and 0 < failed <= SECOND_CHANCES:
        print(f"\n=== {suite}: {failed} failed; once more, alone", flush=True)
        code = pytest(suite, report, "--last-failed", "--last-failed-no-failures=none")
        again, failed, _ = totals(report)
        passed += again
    return Outcome(suite, code, passed, failed, skipped, time.monotonic() - started, again)


def pytest(suite: str, report: Path, *more: str) -> int:
    """Run a suite's tests; return pytest's exit code."""
    arguments = ["-m", expression(suite), f"--junitxml={report}", "-q", *more]
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def totals(report: Path) -> tuple[int, int, int]:
    """Read passed, failed and skipped from pytest's report; zeros when it could not write one."""
    if not report.exists():
        return 0, 0, 0
    said = [suite.attrib for suite in ElementTree.parse(report).iter("testsuite")]
    tests, failures, errors, skipped = (
        sum(int(suite[name]) for suite in said)
        for name in ("tests", "failures", "errors", "skipped")
    )
    return tests - failures - errors - skipped, failures + errors, skipped


def main(suites: list[str]) -> int:
    """Run the suites; return 0 when all of them are well and at least one test ran."""
    if unknown := [suite for suite in suites if suite not in SUITES]:
        print(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [run(suite, Path(folder, f"{suite}.xml")) for suite in suites or SUITES]
    print("\n=== all suites")
    for each in outcomes:
        verdict = {0: "ok", NO_TESTS: "has no tests"}.get(each.code, f"FAILED ({each.code})")
        needed = f", {each.again} of them at the second attempt" if each.again else ""
        print(f"{each.suite:8} {each.passed:6} passed {each.seconds:8.1f} s  {verdict}{needed}")
    passed, failed, skipped = (
        sum(getattr(each, name) for each in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    is_well = all(each.code in (0, NO_TESTS) for each in outcomes)
    return 0 if is_well and passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
