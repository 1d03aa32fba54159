"""Finding what `dragoman worker` is to run."""

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Client
from dragoman.cli.worker import find
from dragoman.testing.harness import LocalBroker

COMMAND = str(Path(sys.executable).with_name("dragoman"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "desk_module.py").write_text("def add(a): return a\nclass Desk:\n    x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_module_and_things_in_it_are_found(here: None) -> None:
    assert find("desk_module").__name__ == "desk_module"
    assert find("desk_module:add")(3) == 3
    assert find("desk_module:Desk.x") == 1


@pytest.mark.parametrize("what", ["no_such_module", "desk_module:nothing"])
def test_a_missing_module_or_object_is_reported(here: None, what: str) -> None:
    with pytest.raises(ValueError, match="no"):
        find(what)


def test_a_module_that_fails_shows_only_the_users_frames(here: None) -> None:
    Path("broken.py").write_text("def deep():\n    return 1 / 0\n\ndeep()\n")
    with pytest.raises(ValueError, match="broken failed to import") as caught:
        find("broken")
    text = str(caught.value)
    assert text.count("File ") == 2
    assert "broken.py" in text
    assert text.endswith("ZeroDivisionError: division by zero")


def test_a_missing_import_of_a_module_is_named(here: None) -> None:
    Path("lacking.py").write_text("import nosuchthing\n")
    with pytest.raises(ValueError, match="No module named 'nosuchthing'"):
        find("lacking")


@pytest.mark.process
def test_the_worker_command_runs_tasks_in_processes(tmp_path: Path) -> None:
    (tmp_path / "chores.py").write_text("import os\n\ndef pid() -> int:\n    return os.getpid()\n")
    with LocalBroker("nfp") as broker, Client(broker.url("nfp")) as client:
        command = [COMMAND, "worker", "chores", "--service", "chores"]
        options = ["--isolation", "process", "--processes", "1", "--max-jobs-per-process", "2"]
        worker = subprocess.Popen([*command, *options, "--url", broker.url("nfp")], cwd=tmp_path)
        try:
            calls = client.options(timeout=50)
            pids = [calls.call("chores", "pid") for _ in range(4)]
            assert pids[0] == pids[1] != pids[2] == pids[3]
            (shown,) = calls.call("chores", "mmi.show_workers")
            assert shown["isolation"] == {"pid": "process"}
            assert len(shown["task_processes"]) == 1
        finally:
            worker.terminate()
            assert worker.wait(30) == 0


@pytest.mark.process
def test_a_worker_object_takes_no_isolation_from_the_command(here: None) -> None:
    Path("made.py").write_text(
        "from dragoman import Worker\nw = Worker('nfp://127.0.0.1:9', 's')\n"
    )
    command = [COMMAND, "worker", "made:w", "--service", "s", "--processes", "2"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert "set isolation, processes and log_lines where it is made" in found.stdout + found.stderr
