"""`make interop-bacalhau` says why it cannot run, and fails when a build fails."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "interop_bacalhau.py"

pytestmark = pytest.mark.process


def run(folder: Path, go: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script in an empty folder with this shell script as the only `go`."""
    tools = folder / "tools"
    tools.mkdir()
    if go:
        (tools / "go").write_text(f"#!/bin/sh\n{go}\n")
        (tools / "go").chmod(0o755)
    command = [sys.executable, str(SCRIPT)]
    return subprocess.run(
        command, cwd=folder, env={"PATH": str(tools)}, capture_output=True, text=True
    )


def test_without_go_it_is_skipped_with_the_reason(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("skipped: Bacalhau is built with Go")


def test_without_the_module_it_is_skipped_with_the_reason(tmp_path: Path) -> None:
    done = run(tmp_path, '[ "$1" = mod ]')
    assert done.returncode == 0
    assert "bacalhau v1.9.3 cannot be downloaded" in done.stdout


def test_a_build_that_fails_is_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, '[ "$1" != build ]').returncode == 1
