"""Run the test suites, three processes at a time, and add up their results.

Each suite runs in a process of its own, so that a thousand peers or a Java machine left over from
one cannot disturb the next. The longest suites are cut into two parts.
`run_tests.py unit sim` runs only those two suites.

Many tests use real processes, sockets and clocks, and a busy machine can be late for them. If only
a few tests of a suite fail, they run once more, alone. A test that passes then is *flaky*: it is
named and counted, and more than `FLAKY_BOUND` of them fail the run. A test that fails twice has
failed.
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
MARKED = ("process", "sim", "interop", "spark", "scale", "crash")
SUITES = ("unit", *MARKED)
#: The order they begin in: the longest first. Interop waits most of its time.
ORDER = ("interop", "spark", "process", "unit", "sim", "scale", "crash")
#: The longest suites are cut into parts, by file.
PARTS = {"interop": 2, "unit": 2}
AT_ONCE = 3
NO_TESTS = 5
#: Exit code of a suite that left a secret behind. A second attempt cannot mend that.
LEAKED = 9
#: A suite with more failures than this gets no second attempt.
SECOND_CHANCES = 8
#: Tests of the whole run that may pass at the second attempt only.
FLAKY_BOUND = 3


@dataclass
class Outcome:
    """The result of one suite, or of one part of it."""

    suite: str
    code: int
    passed: int
    failed: int
    skipped: int
    seconds: float
    #: Tests that failed, by name, and those that passed at the second attempt.
    names: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    part: str = ""
    #: Where it left secrets behind, as the plugin prints them.
    leaks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The suite, and which part of it."""
        return f"{self.suite} {self.part}".strip()


def expression(suite: str) -> str:
    """Return pytest's mark expression of a suite. Every test belongs to exactly one suite."""
    later = MARKED if suite == "unit" else MARKED[MARKED.index(suite) + 1 :]
    wanted = [] if suite == "unit" else [suite]
    return " and ".join(wanted + [f"not {mark}" for mark in later])


def pieces(suites: list[str]) -> list[tuple[str, str]]:
    """Return what runs as a process: suites in their order, each with its part ("" for whole)."""
    found = []
    for suite in (suite for suite in ORDER if suite in suites):
        count = PARTS.get(suite, 1)
        parts = [f"{n}/{count}" for n in range(1, count + 1)] if count > 1 else [""]
        found += [(suite, part) for part in parts]
    return found


def run(suite: str, folder: Path, part: str = "") -> Outcome:
    """Run one suite, or one part of it, in a process of its own."""
    say(suite, f"=== pytest -m '{expression(suite)}' {part}")
    started = time.monotonic()
    report = folder / f"{suite}{part.replace('/', '-of-')}.xml"
    code, leaks = pytest(suite, report, "--durations=5", part=part)
    counts, seconds = totals(report), time.monotonic() - started
    return Outcome(suite, code, *counts, seconds, failures(report), part=part, leaks=leaks)


def run_again(first: Outcome, folder: Path) -> Outcome:
    """Run a suite's failures once more, if they are few."""
    if first.code != 1 or not 0 < first.failed <= SECOND_CHANCES:
        return first
    say(first.suite, f"=== {first.failed} failed; second attempt, alone")
    started = time.monotonic()
    report = folder / f"{first.suite}{first.part.replace('/', '-of-')}-again.xml"
    again = ("--last-failed", "--last-failed-no-failures=none")
    code, leaks = pytest(first.suite, report, *again, part=first.part)
    passed, failed, _ = totals(report)
    seconds = first.seconds + time.monotonic() - started
    names = failures(report)
    flaky = tuple(name for name in first.names if name not in names)
    counts = (first.passed + passed, failed, first.skipped)
    return Outcome(first.suite, code, *counts, seconds, names, flaky, first.part, leaks)


def pytest(suite: str, report: Path, *more: str, part: str = "") -> tuple[int, tuple[str, ...]]:
    """Run a suite's tests and print their output behind its name; return exit code and leaks."""
    # Two processes with one cache would overwrite each other's list of failures.
    cache = f"cache_dir=.pytest_cache/{suite}{part.replace('/', '-of-')}"
    arguments = ["-m", expression(suite), f"--junitxml={report}", "-q", "-o", cache, *more]
    if part:
        arguments += ["--part", part]
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        leaks = []
        for line in process.stdout:
            say(suite, line.rstrip())
            if line.startswith("LEAKED "):
                leaks.append(line.rstrip())
    return process.returncode, tuple(leaks)


def say(suite: str, line: str) -> None:
    """Print a line of one suite."""
    print(f"{suite:8}{line}", flush=True)


def totals(report: Path) -> tuple[int, int, int]:
    """Read passed, failed and skipped from pytest's report; zeros if there is no report."""
    if not report.exists():
        return 0, 0, 0
    found = [suite.attrib for suite in ElementTree.parse(report).iter("testsuite")]
    tests, failures, errors, skipped = (
        sum(int(suite[name]) for suite in found)
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
    """Print the result of a suite. It comes last, so that the end of a long log tells enough."""
    known = {0: "ok", NO_TESTS: "has no tests", LEAKED: "FAILED: it left secrets behind"}
    verdict = known.get(each.code, f"FAILED ({each.code})")
    print(f"{each.name:8} {each.passed:6} passed {each.seconds:8.1f} s  {verdict}")
    for name in each.flaky:
        print(f"{'':8} flaky, passed at the second attempt: {name}")
    for name in each.names:
        print(f"{'':8} failed: {name}")
    for leak in each.leaks:
        print(f"{'':8} {leak}")


def conclude(outcomes: list[Outcome]) -> int:
    """Print the sums; return 0 if every suite passed, few tests were flaky and any test ran."""
    passed, failed, skipped = (
        sum(getattr(each, name) for each in outcomes) for name in ("passed", "failed", "skipped")
    )
    flaky = sum(len(each.flaky) for each in outcomes)
    if flaky:
        print(f"{flaky} flaky; a run may have {FLAKY_BOUND}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    is_well = all(each.code in (0, NO_TESTS) for each in outcomes)
    return 0 if is_well and passed and flaky <= FLAKY_BOUND else 1


def main(suites: list[str]) -> int:
    """Run the suites; return 0 when all of them are well and at least one test ran."""
    if unknown := [suite for suite in suites if suite not in SUITES]:
        print(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    wanted = pieces(suites or list(SUITES))
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(name)
        firsts = list(pool.map(lambda piece: run(piece[0], folder, piece[1]), wanted))
        outcomes = [run_again(first, folder) for first in firsts]
    print("\n=== all suites")
    for each in outcomes:
        summarise(each)
    return conclude(outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
