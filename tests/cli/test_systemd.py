"""`up` and `worker` as units of systemd with Type=notify."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli.systemd import SystemdNotifier
from dragoman.dialects.listeners import LISTENERS
from dragoman.testing.harness import LocalBroker

COMMAND = [sys.executable, "-c", "from dragoman.cli.main import main; main()"]
OFF = [
    word
    for each in LISTENERS
    if each.name not in ("nfp", "nats")
    for word in (f"--{each.name.replace('_', '-')}", "off")
]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(50)
        yield listening


def heard(manager: socket.socket, until: str) -> list[str]:
    found: list[str] = []
    while until not in found:
        found += manager.recv(4096).decode().split("\n")
    return found


def environment(manager: socket.socket, **more: str) -> dict[str, str]:
    return {**os.environ, "NOTIFY_SOCKET": manager.getsockname(), **more}


@pytest.mark.process
def test_a_broker_says_that_it_is_ready_alive_and_stopping(
    manager: socket.socket, tmp_path: Path
) -> None:
    words = [*COMMAND, "up", *OFF, "--nfp", "127.0.0.1:0", "--data", str(tmp_path / "d")]
    env = environment(manager, WATCHDOG_USEC="300000")
    with subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL) as process:
        heard(manager, "READY=1")
        heard(manager, "WATCHDOG=1")
        process.send_signal(signal.SIGTERM)
        assert "READY=1" not in heard(manager, "STOPPING=1")
        assert process.wait(30) == 0


@pytest.mark.process
def test_a_worker_is_ready_when_the_broker_has_registered_it(
    manager: socket.socket, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text("def add(x: int, y: int) -> int:\n    return x + y\n")
    with LocalBroker("nfp") as broker:
        words = [*COMMAND, "worker", "tasks", "--service", "math", "--url", broker.url("nfp")]
        env = environment(manager, PYTHONPATH=os.pathsep.join(sys.path))
        with subprocess.Popen(words, env=env, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            # Without a watchdog of the manager there are no signs of life.
            assert heard(manager, "READY=1") == ["READY=1"]
            process.send_signal(signal.SIGTERM)
            heard(manager, "STOPPING=1")
            assert process.wait(30) == 0


def test_without_systemd_nothing_is_said() -> None:
    async def served() -> None:
        await asyncio.sleep(0)

    silent = SystemdNotifier({})
    silent.tell("READY=1")
    asyncio.run(silent.accompany(served(), lambda: True, lambda: False))
    assert silent.watchdog == 0.0


def test_a_watchdog_of_another_process_is_not_ours() -> None:
    assert SystemdNotifier({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}).watchdog == 0.0
    assert SystemdNotifier({"WATCHDOG_USEC": "2000000"}).watchdog == 2.0


def test_a_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell("READY=1")
