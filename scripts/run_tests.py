"""Run the test suites, two at a time, and add up what they say.

Each suite is a process of its own, so that a thousand peers or a Java machine left over from
one cannot disturb the next. Those that calculate run beside one that mostly waits for processes and
sockets. `run_tests.py unit sim` runs only those two.

Many tests are about real processes, sockets and clocks, and a busy machine can be late for them.
A few failures of a suite are therefore run once more, when nothing else runs; what passes then is
counted as passed and named as having needed it. What fails twice has failed.
"""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

#: Marked suites. A test with several marks belongs to the last of them.
MARKED = ("sim", "interop", "spark", "scale", "crash")
SUITES = ("unit", *MARKED)
#: The order they begin in, two at a time: the one that waits most runs beside all the others.
ORDER = ("interop", "unit", "sim", "spark", "scale", "crash")
AT_ONCE = 2
NO_TESTS = 5
#: A secret was found where none may be; running tests again does not mend that.
LEAKED = 9
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
    #: Tests that failed, by name; those of the first attempt that passed when they were run again.
    names: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


def expression(suite: str) -> str:
    """Say which tests belong to a suite, so that every test belongs to exactly one."""
    later = MARKED if suite == "unit" else MARKED[MARKED.index(suite) + 1 :]
    wanted = [] if suite == "unit" else [suite]
    return " and ".join(wanted + [f"not {mark}" for mark in later])


def run(suite: str, folder: Path) -> Outcome:
    """Run one suite in a process of its own."""
    say(suite, f"=== pytest -m '{expression(suite)}'")
    started = time.monotonic()
    report = folder / f"{suite}.xml"
    code = pytest(suite, report, "--durations=5")
    return Outcome(suite, code, *totals(report), time.monotonic() - started, failures(report))


def run_again(first: Outcome, folder: Path) -> Outcome:
    """Run a suite's failures once more, if they are few."""
    if first.code != 1 or not 0 < first.failed <= SECOND_CHANCES:
        return first
    say(first.suite, f"=== {first.failed} failed; once more, alone")
    started = time.monotonic()
    report = folder / f"{first.suite}-again.xml"
    code = pytest(first.suite, report, "--last-failed", "--last-failed-no-failures=none")
    passed, failed, _ = totals(report)
    seconds = first.seconds + time.monotonic() - started
    names = failures(report)
    again = tuple(name for name in first.names if name not in names)
    passed += first.passed
    return Outcome(first.suite, code, passed, failed, first.skipped, seconds, names, again)


def pytest(suite: str, report: Path, *more: str) -> int:
    """Run a suite's tests, its output line by line behind its name; return the exit code."""
    # A cache of its own: two suites at once would overwrite each other's list of failures.
    cache = f"cache_dir=.pytest_cache/{suite}"
    arguments = ["-m", expression(suite), f"--junitxml={report}", "-q", "-o", cache, *more]
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            say(suite, line.rstrip())
    return process.returncode


def say(suite: str, line: str) -> None:
    """Print a line of one suite."""
    print(f"{suite:8}{line}", flush=True)


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


def failures(report: Path) -> tuple[str, ...]:
    """Read from pytest's report which tests failed."""
    if not report.exists():
        return ()
    cases = ElementTree.parse(report).iter("testcase")
    failed = [
        case for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    return tuple(f"{case.get('classname')}::{case.get('name')}" for case in failed)


def summarise(each: Outcome) -> None:
    """Print how a suite went, last of all, so that the end of a long log says what to look at."""
    known = {0: "ok", NO_TESTS: "has no tests", LEAKED: "FAILED: it left secrets behind"}
    verdict = known.get(each.code, f"FAILED ({each.code})")
    print(f"{each.suite:8} {each.passed:6} passed {each.seconds:8.1f} s  {verdict}")
    for name in each.again:
        print(f"{'':8} passed at the second attempt: {name}")
    for name in each.names:
        print(f"{'':8} failed: {name}")


def main(suites: list[str]) -> int:
    """Run the suites; return 0 when all of them are well and at least one test ran."""
    if unknown := [suite for suite in suites if suite not in SUITES]:
        print(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    wanted = suites or SUITES
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(name)
        firsts = list(pool.map(lambda suite: run(suite, folder), [s for s in ORDER if s in wanted]))
        outcomes = [run_again(first, folder) for first in firsts]
    print("\n=== all suites")
    for each in outcomes:
        summarise(each)
    passed, failed, skipped = (
        sum(getattr(each, name) for each in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    is_well = all(each.code in (0, NO_TESTS) for each in outcomes)
    return 0 if is_well and passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
