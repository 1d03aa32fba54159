"""Starting a worker again when its code changes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman import Client
from dragoman.cli.reload import Reloader, changed, times_of
from dragoman.testing.harness import LocalBroker

COMMAND = str(Path(sys.executable).with_name("dragoman"))


def test_new_changed_and_removed_files_are_found_and_hidden_folders_are_not(
    tmp_path: Path,
) -> None:
    for name in ("kept.py", "edited.py", "gone.py"):
        (tmp_path / name).write_text("x = 1")
    before = times_of(tmp_path)
    os.utime(tmp_path / "edited.py", ns=(1, 1))
    (tmp_path / "gone.py").unlink()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "new.py").write_text("")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "hidden.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    found = [Path(p).name for p in changed(before, times_of(tmp_path))]
    assert sorted(found) == ["edited.py", "gone.py", "new.py"]


STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: open(sys.argv[1], "a").write("term\\n"))
open(sys.argv[1], "a").write("start\\n")
while True:
    time.sleep(0.01)
"""


@pytest.mark.process
def test_a_worker_that_does_not_end_is_told_twice_and_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    looks = iter([{}, {"a.py": 1}])

    def look() -> dict[str, int]:
        while not log.exists() and has_started:
            time.sleep(0.01)
        has_started.append(True)
        found = next(looks, None)
        if found is None:
            reloader.stop(False)
            assert reloader._child is not None
            reloader._child.kill()
            return {"a.py": 1}
        return found

    has_started: list[bool] = []
    command = [sys.executable, "-c", STUBBORN, str(log)]
    reloader = Reloader(command, look, look_every=0.01, finish_within=0.3)
    assert reloader.run() == -signal.SIGKILL
    assert log.read_text().split()[:3] == ["start", "term", "term"]


@pytest.mark.process
def test_a_changed_task_is_served_without_a_new_command(tmp_path: Path) -> None:
    code = tmp_path / "chores.py"
    code.write_text("def answer() -> int:\n    return 1\n")
    with LocalBroker("nfp") as broker, Client(broker.url("nfp")) as client:
        command = [COMMAND, "worker", "chores", "--service", "chores", "--reload"]
        worker = subprocess.Popen([*command, "--url", broker.url("nfp")], cwd=tmp_path)
        try:
            calls = client.options(timeout=50)
            assert calls.call("chores", "answer") == 1
            code.write_text("def answer() -> int:\n    return 22\n")
            deadline = time.monotonic() + 40
            while (found := calls.call("chores", "answer")) != 22:
                assert (found, time.monotonic() < deadline) == (1, True)
        finally:
            worker.terminate()
            assert worker.wait(30) == 0
