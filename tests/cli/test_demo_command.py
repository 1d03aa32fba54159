"""`dragoman demo` as a user runs it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

COMMAND = [sys.executable, "-c", "from dragoman.cli.main import main; main()", "demo"]
#: A variable by which the processes of one demo are known.
MARK = "TEST_OF_THE_DEMO"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_whole_mission_in_one_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--folder", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all checks passed" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.interop
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("words", "number"), [("1.", signal.SIGINT), ("2.", signal.SIGTERM), ("3.", signal.SIGINT)]
)
def test_a_demo_that_is_stopped_leaves_nothing_behind(
    tmp_path: Path, words: str, number: signal.Signals
) -> None:
    demo = subprocess.Popen(
        [*COMMAND, "--no-spark", "--keep", "--folder", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", MARK: str(tmp_path)},
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith(words):
            break
    demo.send_signal(number)
    said = demo.communicate(timeout=120)[0]
    assert demo.returncode == 130, said
    assert "stopping" in said
    assert left(tmp_path) == []


def left(folder: Path) -> list[str]:
    """Name the processes that still run for a demo: they all have what it was started with."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            is_of_it = process.environ().get(MARK) == str(folder)
            if is_of_it and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found
