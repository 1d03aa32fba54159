"""The suites: every test runs in exactly one of them, and what they say adds up."""

import importlib.util
import itertools
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from tests.canary_watch import LEAKED

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_tests", ROOT / "scripts" / "run_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_combination_of_marks_belongs_to_exactly_one_suite(runner: ModuleType) -> None:
    marks = runner.MARKED
    for chosen in itertools.product([False, True], repeat=len(marks)):
        carried = dict(zip(marks, chosen, strict=True))
        suites = [suite for suite in runner.SUITES if eval(runner.expression(suite), {}, carried)]
        assert len(suites) == 1, carried


def test_every_mark_of_the_project_has_its_suite(runner: ModuleType) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    marks = settings["tool"]["pytest"]["ini_options"]["markers"]
    assert {mark.partition(":")[0] for mark in marks} == set(runner.MARKED)


def test_every_suite_has_its_turn(runner: ModuleType) -> None:
    assert sorted(runner.ORDER) == sorted(runner.SUITES)


def test_the_totals_are_read_from_the_report(runner: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="9" failures="2" errors="1" skipped="3"/></testsuites>'
    )
    assert runner.totals(report) == (3, 3, 3)


def test_a_suite_that_wrote_no_report_counts_as_nothing(runner: ModuleType, tmp_path: Path) -> None:
    assert runner.totals(tmp_path / "none.xml") == (0, 0, 0)


def test_an_unknown_suite_is_a_usage_error(
    runner: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.main(["unti"]) == 2
    assert "no suite unti" in capsys.readouterr().err


def report(path: Path, tests: int, failures: int) -> None:
    cases = "".join(
        f'<testcase classname="tests.some" name="test_{n}"><failure/></testcase>'
        for n in range(failures)
    )
    path.write_text(
        f'<testsuite tests="{tests}" failures="{failures}" errors="0" skipped="0">'
        f'{cases}<testcase classname="tests.some" name="test_well"/></testsuite>'
    )


def test_a_few_failures_run_once_more_and_are_called_flaky(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = iter([(1, 10, 2), (0, 2, 0)])

    def run_pytest(
        suite: str, path: Path, *more: str, part: str = ""
    ) -> tuple[int, tuple[str, ...]]:
        code, tests, failures = next(runs)
        report(path, tests, failures)
        return code, ()

    monkeypatch.setattr(runner, "pytest", run_pytest)
    outcome = runner.run_again(runner.run("interop", tmp_path), tmp_path)
    assert (outcome.code, outcome.passed, outcome.failed, outcome.names) == (0, 10, 0, ())
    assert outcome.flaky == ("tests.some::test_0", "tests.some::test_1")


@pytest.mark.parametrize(("second", "failures"), [((1, 2, 1), 2), (None, 9)])
def test_what_fails_twice_or_fails_in_numbers_has_failed(
    runner: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    second: tuple[int, int, int] | None,
    failures: int,
) -> None:
    runs = iter([(1, 20, failures), *([second] if second else [])])

    def run_pytest(
        suite: str, path: Path, *more: str, part: str = ""
    ) -> tuple[int, tuple[str, ...]]:
        code, tests, failed = next(runs)
        report(path, tests, failed)
        return code, ()

    monkeypatch.setattr(runner, "pytest", run_pytest)
    outcome = runner.run_again(runner.run("interop", tmp_path), tmp_path)
    assert outcome.code == 1
    assert outcome.failed == len(outcome.names) == (1 if second else 9)


def test_the_last_lines_name_what_failed_and_what_needed_another_attempt(
    runner: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    runner.summarise(runner.Outcome("sim", 1, 3, 1, 0, 2.0, ("tests.a::bad",), ("tests.a::late",)))
    said = capsys.readouterr().out
    assert "failed: tests.a::bad" in said
    assert "second attempt: tests.a::late" in said


def test_a_suite_that_left_secrets_has_no_second_chance(
    runner: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run_pytest(
        suite: str, path: Path, *more: str, part: str = ""
    ) -> tuple[int, tuple[str, ...]]:
        report(path, 10, 1)
        return LEAKED, ("LEAKED a token in a file",)

    monkeypatch.setattr(runner, "pytest", run_pytest)
    first = runner.run("unit", tmp_path)
    assert runner.run_again(first, tmp_path) is first
    runner.summarise(first)
    said = capsys.readouterr().out
    assert "FAILED: it left secrets behind" in said
    assert "LEAKED a token in a file" in said
    assert runner.LEAKED == LEAKED


@pytest.mark.parametrize(("count", "code"), [(3, 0), (4, 1)])
def test_more_flaky_tests_than_the_bound_fail_the_run(
    runner: ModuleType, capsys: pytest.CaptureFixture[str], count: int, code: int
) -> None:
    names = tuple(f"tests.a::late_{n}" for n in range(count))
    outcomes = [runner.Outcome("interop", 0, 9, 0, 0, 1.0, (), names)]
    assert runner.conclude(outcomes) == code
    assert f"{count} flaky" in capsys.readouterr().out


def test_the_unit_suite_runs_in_two_parts_and_the_others_whole(runner: ModuleType) -> None:
    found = runner.pieces(["sim", "unit"])
    assert found == [("unit", "1/2"), ("unit", "2/2"), ("sim", "")]
