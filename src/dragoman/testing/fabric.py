"""A broker and workers as real processes that can be started, killed, frozen and stopped.

The demo, the fuzzer, the soak and users' tests use it. Each process logs to a file in the fabric's
folder. The broker keeps its ports across restarts.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.registry import DIALECTS
from dragoman.sdk.blocking import Client

_COMMAND: Final = [sys.executable, "-c", "from dragoman.cli.main import main; main()"]
#: The listeners that the broker opens.
LINKS: Final = tuple(each.name for each in LISTENERS)
#: Below the ephemeral range. A client that retries while its broker is down could otherwise get
#: the broker's port as its own.
PORTS: Final = range(12_000, 32_000)
READY_WITHIN: Final = 120.0
TASKS: Final = "dragoman.testing.tasks"


class CheckFailed(Exception):
    """A check failed; the message says which."""


#: Ports that this process has chosen: a listener may not have opened them yet.
_chosen: set[int] = set()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a free port of this machine, each once."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        if port in _chosen:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind((host, port))
            _chosen.add(port)
            return port


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer SIGINT and SIGTERM while the block runs.

    A signal between the start of a process and its registration would leave that process running.
    """
    received: list[int] = []
    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, lambda which, _: received.append(which))
    try:
        yield
    finally:
        for which, handler in previous.items():
            signal.signal(which, handler)
        for which in received[:1]:
            signal.raise_signal(which)


class Fabric:
    """A broker process on a data folder, and worker processes."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        """Prepare the folder; `settings` is the broker's TOML."""
        self.folder = folder
        self.data = folder / "data"
        self.endpoints: dict[str, str] = {}
        self._broker: subprocess.Popen[bytes] | None = None
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._config = folder / "dragoman.toml"
        self._config.write_text(settings)

    # --- broker -------------------------------------------------------------------------------

    def start_broker(self) -> None:
        """Start the broker. A restarted broker uses the same endpoints."""
        if self.endpoints:
            self._start_broker()
            return
        try:
            self._start_broker()
        except CheckFailed:
            # Another process may have taken one of the ports.
            self.endpoints.clear()
            self._start_broker()

    def _start_broker(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        arguments = ["up", "--config", str(self._config), "--data", str(self.data)]
        arguments += ["--ready-file", str(ready)]
        for link in LINKS:
            self.endpoints.setdefault(link, f"tcp://127.0.0.1:{free_port()}")
            arguments += [f"--{link.replace('_', '-')}", self.endpoints[link]]
        with signals_deferred():
            self._broker = self._start("broker", arguments)
        until = time.monotonic() + READY_WITHIN
        while not ready.exists():
            if self._broker.poll() is not None or time.monotonic() > until:
                raise CheckFailed(
                    f"the broker did not start within {READY_WITHIN:g} s; see {self.log('broker')}"
                )
            time.sleep(0.02)
        self.endpoints = json.loads(ready.read_text())

    @property
    def broker_pid(self) -> int:
        """The process id of the broker; 0 before its first start."""
        return self._broker.pid if self._broker is not None else 0

    @property
    def is_broker_up(self) -> bool:
        """Whether the broker process runs."""
        return self._broker is not None and self._broker.poll() is None

    def kill_broker(self) -> None:
        """Kill the broker with SIGKILL."""
        assert self._broker is not None
        self._broker.send_signal(signal.SIGKILL)
        self._broker.wait()

    def stop_broker(self) -> None:
        """Stop the broker in good order."""
        if self._broker is not None and self._broker.poll() is None:
            self._broker.terminate()
            self._broker.wait(timeout=60)

    # --- workers ------------------------------------------------------------------------------

    def start_worker(self, dialect: str, service: str, name: str, url: str = "") -> None:
        """Start a worker of a dialect; `url` replaces the broker's own URL (a proxy, say)."""
        arguments = ["worker", TASKS, "--service", service, "--name", name]
        arguments += ["--url", url or self.url(dialect, is_worker=True)]
        with signals_deferred():
            self._workers[name] = self._start(name, arguments)

    def kill_worker(self, name: str) -> None:
        """Kill a worker with SIGKILL."""
        process = self._workers[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        del self._workers[name]

    def signal_worker(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a worker: SIGSTOP freezes it until SIGCONT."""
        self._workers[name].send_signal(number)

    def wait_for(self, services: list[str], at_most: float = READY_WITHIN) -> None:
        """Wait until every service has a worker. Raises `CheckFailed` with the missing ones."""
        until = time.monotonic() + at_most
        with Client(self.url("nfp")) as client:
            while True:
                rows = client.call("mmi.service.broker", "list_services", timeout=10)
                missing = set(services) - {row["name"] for row in rows if row["workers"]}
                if not missing:
                    return
                if time.monotonic() > until:
                    raise CheckFailed(f"no worker joined for {', '.join(sorted(missing))}")
                time.sleep(0.1)

    def url(self, dialect: str, *, is_worker: bool = False) -> str:
        """Return the URL that peers of a dialect connect to."""
        return f"{dialect}://{self.endpoints[link_of(dialect, is_worker)].partition('://')[2]}"

    # --- both ---------------------------------------------------------------------------------

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.folder / f"{name}.log"

    def _start(self, name: str, arguments: list[str]) -> "subprocess.Popen[bytes]":
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                [*_COMMAND, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def stop(self) -> None:
        """Stop everything in good order; kill what does not stop."""
        for process in self._workers.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._workers.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._workers.clear()
        self.stop_broker()

    def kill(self) -> None:
        """Kill everything."""
        for process in (*self._workers.values(), self._broker):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self._workers.clear()

    def describe(self) -> str:
        """Return process ids and endpoints, for manual use."""
        pids = [f"{n} {p.pid}" for n, p in self._workers.items()]
        return "\n".join(
            [f"broker pid {self.broker_pid}", *pids, json.dumps(self.endpoints, indent=2)]
        )


def link_of(dialect: str, is_worker: bool = False) -> str:
    """Return the listener that peers of a dialect connect to."""
    found = DIALECTS[dialect]
    return (found.worker_listener if is_worker else found.client_listener).name


def client_dialects() -> list[str]:
    """Return the dialects that have clients."""
    return [name for name, dialect in DIALECTS.items() if dialect.has_clients]


def worker_dialects() -> list[str]:
    """Return the dialects that have workers."""
    return list(DIALECTS)
