"""`dragoman up` as a process: ready file, clean stop, error messages."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.cli.up import start_logging
from dragoman.dialects.listeners import LISTENERS

UP = [sys.executable, "-c", "from dragoman.cli.main import main; main()", "up"]
NAMES = [each.name.replace("_", "-") for each in LISTENERS]
OFF = [w for link in NAMES if link not in ("nfp", "nats") for w in (f"--{link}", "off")]


def wait_for(path: Path, process: "subprocess.Popen[str]") -> dict[str, str]:
    until = time.monotonic() + 30
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "the broker did not get ready"
        time.sleep(0.02)
    found: dict[str, str] = json.loads(path.read_text())
    return found


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_its_endpoints_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    ready = tmp_path / "ready.json"
    free = "127.0.0.1:0"
    words = [*UP, *OFF, "--nfp", free, "--http", free, "--data", str(tmp_path / "d")]
    with subprocess.Popen(
        [*words, "--ready-file", str(ready)], stderr=subprocess.PIPE, text=True
    ) as process:
        endpoints = wait_for(ready, process)
        assert endpoints["nfp"].startswith("tcp://127.0.0.1:")
        assert endpoints["http"].startswith("http://127.0.0.1:")
        assert "dcp" not in endpoints
        os.kill(process.pid, number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert '"stopped"' in err


@pytest.mark.process
def test_a_broken_inventory_is_named_and_nothing_starts(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text("workers: {\n")
    words = [*UP, *OFF, "--nfp", "127.0.0.1:0", "--data", str(tmp_path / "d")]
    done = subprocess.run(
        [*words, "--inventory", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "inventory.yaml, line 2" in done.stderr


@pytest.mark.process
def test_a_taken_port_is_an_error_message(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    first = [*UP, *OFF, "--nfp", "127.0.0.1:0", "--data", str(tmp_path / "a")]
    with subprocess.Popen(
        [*first, "--ready-file", str(ready)], stderr=subprocess.PIPE, text=True
    ) as process:
        taken = wait_for(ready, process)["nfp"]
        second = subprocess.run(
            [*UP, *OFF, "--nfp", taken, "--data", str(tmp_path / "b")],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        process.terminate()
        process.communicate(timeout=20)
    assert second.returncode == 1
    assert taken in second.stderr
    assert "Traceback" not in second.stderr


def test_a_wrong_log_level_is_reported() -> None:
    with pytest.raises(ValueError, match="loud"):
        start_logging("loud")
