"""The demo's processes: a broker and its workers, started, killed and stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from dragoman.sdk.kits import DIALECTS

_COMMAND: Final = [sys.executable, "-c", "from dragoman.cli.main import main; main()"]
#: The link workers of a dialect connect to, where it is not called like the dialect.
_WORKER_LINK: Final = {"zss": "zss_backend", "ncl": "nats"}
_CLIENT_LINK: Final = {"ncl": "nats"}
_LINKS: Final = ("nfp", "dcp", "zss", "zss_backend", "memo", "nats", "http")
#: What the broker is told to open: where peers of some dialect can connect.
LINKS: Final = tuple(n for n in _LINKS if n in (*DIALECTS, "zss_backend", "nats"))
READY_WITHIN: Final = 60.0


class DemoFailed(Exception):
    """Something in the demo did not hold; the message says what."""


class Fabric:
    """A broker process on a data folder, and worker processes around it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.endpoints: dict[str, str] = {}
        self._broker: subprocess.Popen[bytes] | None = None
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    # --- broker -------------------------------------------------------------------------------

    def start_broker(self) -> None:
        """Start the broker; a restarted one listens where the first one did."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        words = ["up", "--data", str(self.data), "--ready-file", str(ready)]
        for link in LINKS:
            words += [f"--{link.replace('_', '-')}", self.endpoints.get(link, "127.0.0.1:0")]
        self._broker = self._start("broker", words)
        until = time.monotonic() + READY_WITHIN
        while not ready.exists():
            if self._broker.poll() is not None or time.monotonic() > until:
                raise DemoFailed(f"the broker did not start; see {self.log('broker')}")
            time.sleep(0.02)
        self.endpoints = json.loads(ready.read_text())

    def kill_broker(self) -> None:
        """Kill the broker without warning."""
        assert self._broker is not None
        self._broker.send_signal(signal.SIGKILL)
        self._broker.wait()

    def stop_broker(self) -> None:
        """Stop the broker in good order."""
        if self._broker is not None and self._broker.poll() is None:
            self._broker.terminate()
            self._broker.wait(timeout=60)

    # --- workers ------------------------------------------------------------------------------

    def start_worker(self, dialect: str, service: str, name: str) -> None:
        """Start a worker of a dialect."""
        words = ["worker", "dragoman.cli.demo.tasks", "--service", service, "--name", name]
        self._workers[name] = self._start(
            name, [*words, "--url", self.url(dialect, is_worker=True)]
        )

    def kill_worker(self, name: str) -> None:
        """Kill a worker without warning."""
        process = self._workers.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def url(self, dialect: str, *, is_worker: bool = False) -> str:
        """Return where peers of a dialect connect."""
        link = (_WORKER_LINK if is_worker else _CLIENT_LINK).get(dialect, dialect)
        return f"{dialect}://{self.endpoints[link].partition('://')[2]}"

    def client_dialects(self) -> list[str]:
        """Return the dialects that have clients."""
        return [d for d in DIALECTS if d != "ncl"]

    def worker_dialects(self) -> list[str]:
        """Return the dialects that have workers."""
        return list(DIALECTS)

    # --- both ---------------------------------------------------------------------------------

    def log(self, name: str) -> Path:
        """Return where a process's log is."""
        return self.folder / f"{name}.log"

    def _start(self, name: str, words: list[str]) -> "subprocess.Popen[bytes]":
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                [*_COMMAND, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def stop(self) -> None:
        """Stop everything in good order; what does not go is killed."""
        for process in self._workers.values():
            process.terminate()
        for process in self._workers.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._workers.clear()
        self.stop_broker()

    def describe(self) -> str:
        """Say what runs where, for whoever wants to play with it."""
        pids = [f"{n} {p.pid}" for n, p in self._workers.items()]
        broker = self._broker.pid if self._broker else 0
        return "\n".join([f"broker pid {broker}", *pids, json.dumps(self.endpoints, indent=2)])
