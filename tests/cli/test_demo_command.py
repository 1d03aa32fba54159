"""`dragoman demo` as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from dragoman.cli.main import main; main()", "demo"]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_whole_mission_in_one_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--folder", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it held" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 10_000
