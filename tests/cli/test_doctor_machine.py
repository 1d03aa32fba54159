"""The machine, as the doctor sees it."""

import os
import resource
import sys
import time
from itertools import count

import pytest

from dragoman.cli.doctor import machine
from dragoman.cli.doctor.check_results import BAD, OK, WARNING


@pytest.mark.process
def test_this_machine_runs_the_tests_so_it_is_well() -> None:
    for check in (machine.python, machine.packages, machine.nats_server):
        assert [f.verdict for f in check()] == [OK]
    (results,) = machine.packages()
    assert "pyzmq" in results.text


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PACKAGES", ("pyzmq", "no-such-package"))
    assert [(f.what, f.verdict) for f in machine.packages()] == [
        ("no-such-package", BAD),
        ("packages", OK),
    ]


def test_an_old_python_and_a_missing_nats_server_are_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PYTHON", (99, 0))
    assert next(machine.python()).verdict == BAD
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    assert next(machine.nats_server()).verdict == BAD


def test_a_missing_java_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = list(machine.java())
    assert [(f.what, f.verdict) for f in found] == [("spark", OK), ("java", WARNING)]
    assert found[1].text.startswith("only Spark needs it: Spark needs Java")


def test_a_wrong_clock_is_bad_and_a_jumping_one_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert next(machine.clock()).verdict == OK
    at = count(time.time(), 3600)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: next(at))
        assert next(machine.clock()).verdict == WARNING
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert next(machine.clock()).verdict == BAD


def test_few_open_files_are_a_warning_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    (results,) = machine.open_files()
    assert results.verdict == WARNING
    assert "ulimit -n 4096" in results.text
    assert os.sep not in results.text
