"""`dragoman doctor` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.dialects.listeners import LISTENERS

COMMAND = [sys.executable, "-c", "from dragoman.cli.main import main; main()", "doctor"]
OFF = "[listen]\n" + "".join(f'{each.name} = "off"\n' for each in LISTENERS)


def run(folder: Path, *words: str, text: str = OFF) -> "subprocess.CompletedProcess[str]":
    config = folder / "dragoman.toml"
    config.write_text(text)
    arguments = [*COMMAND, "--config", str(config), "--data", str(folder / "data"), *words]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_every_line_has_a_verdict_and_the_exit_code_says_whether_one_is_bad(
    tmp_path: Path,
) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warning"}
    assert last.startswith(f"{len(lines)} checks: 0 bad")
    for what in ("python", "packages", "java", "clock", "fsync", "port nfp"):
        assert any(what in line for line in lines), what


@pytest.mark.process
def test_broken_settings_are_bad_and_the_rest_is_checked_all_the_same(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", text=OFF + "[nfp]\nbeat_evry = 2\n")
    assert done.returncode == 1
    found = {each["what"]: each for each in json.loads(done.stdout)}
    assert found["settings"]["verdict"] == "bad"
    assert "beat_evry" in found["settings"]["words"]
    assert found["fsync"]["verdict"] in ("ok", "warning")
