"""Run the test suites one after another, the quick ones first, and add up what they say.

Each suite is a process of its own, so that a thousand peers or a Java machine left over from
one cannot disturb the next. `run_tests.py unit sim` runs only those two.
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


@dataclass
class Outcome:
    """How one suite went."""

    suite: str
    code: int
    passed: int
    failed: int
    skipped: int
    seconds: float


def expression(suite: str) -> str:
    """Say which tests belong to a suite, so that every test belongs to exactly one."""
    later = MARKED if suite == "unit" else MARKED[MARKED.index(suite) + 1 :]
    wanted = [] if suite == "unit" else [suite]
    return " and ".join(wanted + [f"not {mark}" for mark in later])


def run(suite: str, report: Path) -> Outcome:
    """Run one suite in a process of its own."""
    print(f"\n=== {suite}: pytest -m '{expression(suite)}'", flush=True)
    arguments = ["-m", expression(suite), f"--junitxml={report}", "--durations=5", "-q"]
    started = time.monotonic()
    code = subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
    return Outcome(suite, code, *totals(report), time.monotonic() - started)


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
        print(f"{each.suite:8} {each.passed:6} passed {each.seconds:8.1f} s  {verdict}")
    passed, failed, skipped = (
        sum(getattr(each, name) for each in outcomes) for name in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    is_well = all(each.code in (0, NO_TESTS) for each in outcomes)
    return 0 if is_well and passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
