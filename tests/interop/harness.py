"""Real processes for tests: brokers, workers, clients, each with its log, all ended at the end.

Nothing here waits for a guessed time: every wait looks for a fact (a file, an exit, an answer) and
has a deadline, after which the test fails with the log of whatever did not come about.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from dragoman.server.settings import Listen
from dragoman.testing.fabric import free_port as free_port

T = TypeVar("T")

#: The command as its users have it.
DRAGOMAN: Final = str(Path(sys.executable).with_name("dragoman"))
ROOT: Final = Path(__file__).resolve().parents[2]
#: Long enough for a start on a busy machine; `make chaos` has no minute for each test.
PATIENCE: Final = 120.0 if "DRAGOMAN_CHAOS" in os.environ else 30.0


def until(claim: Callable[[], T], what: str, at_most: float = PATIENCE, every: float = 0.01) -> T:
    """Ask until the answer is true, and return it; fail after the deadline."""
    deadline = time.monotonic() + at_most
    while not (found := claim()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {at_most:g} s: {what}")
        time.sleep(every)
    return found


class Process:
    """A process with its output in a file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.command = list(command)
        self.log_file = log
        self._env = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}
        self._cwd = cwd
        self.popen = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_running(self) -> bool:
        return self.popen.poll() is None

    @property
    def log(self) -> str:
        """Everything it has printed so far."""
        return self.log_file.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def freeze(self) -> None:
        """Let it stand still until `thaw`."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def wait(self, at_most: float = PATIENCE) -> int:
        """Wait for its end; return its exit code."""
        try:
            return self.popen.wait(at_most)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} has not ended within {at_most:g} s") from None

    def stop(self, at_most: float = PATIENCE) -> int:
        """End it as its owner would, with SIGTERM; return its exit code."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        return self.wait(at_most)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.popen.kill()
        self.popen.wait()

    def until_it_says(self, words: str, at_most: float = PATIENCE) -> None:
        """Wait until some words are in its log."""

        def said() -> bool:
            assert words in self.log or self.is_running, f"{self} ended:\n{self.log[-4000:]}"
            return words in self.log

        until(said, f"{self} says {words!r}", at_most)

    def __str__(self) -> str:
        return f"process {self.pid} ({self.log_file.stem})"


class Broker(Process):
    """`dragoman up` on a data folder of its own. It keeps its ports over restarts."""

    def __init__(self, folder: Path, links: Mapping[str, str], settings: str, number: int) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._ready_file = folder / "ready.json"
        self.config = folder / "dragoman.toml"
        folder.mkdir()
        self.config.write_text(_listen(links) + settings)
        #: What is bound, by link, as the ready file says.
        self.endpoints: dict[str, str] = {}
        command = [DRAGOMAN, "up", "--config", str(self.config), "--data", str(self.data)]
        super().__init__(
            [*command, "--ready-file", str(self._ready_file)],
            folder.parent / f"broker-{number}.log",
        )
        try:
            self.until_ready()
        except AssertionError:
            self.kill()  # no fleet knows it yet
            raise

    def until_ready(self) -> None:
        """Wait until every link is open."""

        def ready() -> bool:
            assert self.is_running, f"{self} ended:\n{self.log[-4000:]}"
            return self._ready_file.exists()

        until(ready, f"{self} is ready")
        self.endpoints = json.loads(self._ready_file.read_text())

    def url(self, link: str = "nfp") -> str:
        """The URL of a link, as our peers want it: `nfp://127.0.0.1:5555`."""
        return f"{link}://{self.endpoints[link].partition('://')[2]}"

    def start(self) -> None:
        """Start again on the same data and ports, after `stop` or `kill`."""
        assert not self.is_running
        self._ready_file.unlink(missing_ok=True)
        self.popen = self._start()
        self.until_ready()

    def restart(self) -> None:
        """Go down in good order and come back."""
        self.stop()
        self.start()

    @property
    def ledger_file(self) -> Path:
        return self.data / "ledger.sqlite"


def _listen(links: Mapping[str, str]) -> str:
    """Write the listeners that are wanted, and turn off all others."""
    unknown = set(links) - set(Listen.model_fields)
    assert not unknown, f"no such links: {unknown}"
    said = {n: _endpoint(links[n]) if n in links else "off" for n in Listen.model_fields}
    return "[listen]\n" + "".join(f'{name} = "{said[name]}"\n' for name in said) + "\n"


def _endpoint(asked: str) -> str:
    """Complete an endpoint; port 0 gets its number here, so that a restart has the same one."""
    if asked.endswith(":0"):
        asked = f"{asked[:-2]}:{free_port()}"
    return asked if "://" in asked or not asked else f"tcp://{asked}"


class Fleet:
    """All processes of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Process] = []

    def _number(self) -> int:
        return len(self.processes) + 1

    def broker(self, links: Mapping[str, str] | None = None, settings: str = "") -> Broker:
        """Start a broker; see the fixture of that name."""
        number = self._number()
        links = links if links is not None else {"nfp": "127.0.0.1:0"}
        broker = Broker(self.folder / f"broker-{number}", links, settings, number)
        self.processes.append(broker)
        return broker

    def run(
        self,
        *command: str,
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> Process:
        """Start any command."""
        log = self.folder / f"{name or Path(command[0]).stem}-{self._number()}.log"
        process = Process(command, log, env=env, cwd=cwd)
        self.processes.append(process)
        return process

    def python(self, *arguments: str, **options: object) -> Process:
        """Start a Python module or file: `python("-m", "tests.interop.x", ...)`."""
        name = arguments[1].rpartition(".")[2] if arguments[0] == "-m" else "python"
        return self.run(sys.executable, *arguments, **{"name": name, **options})  # type: ignore[arg-type]

    def dragoman(self, *arguments: str, **options: object) -> Process:
        """Start a command of ours: `dragoman("worker", "math", "--service", "math", ...)`."""
        return self.run(DRAGOMAN, *arguments, **{"name": arguments[0], **options})  # type: ignore[arg-type]

    def end(self) -> None:
        """End everything that still runs, frozen or not; the brokers last."""
        for process in sorted(self.processes, key=lambda p: isinstance(p, Broker)):
            if process.is_running:
                process.thaw()
                process.kill()

    def logs(self, most: int = 6000) -> str:
        """The end of every log, for a failed test to show."""
        return "\n".join(
            f"--- {p.log_file.name}, exit code {p.popen.poll()}\n{p.log[-most:]}"
            for p in self.processes
        )


def run_dragoman(
    *arguments: str, at_most: float = PATIENCE, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours to its end and return what it printed."""
    return subprocess.run(
        [DRAGOMAN, *arguments],
        capture_output=True,
        text=True,
        timeout=at_most,
        check=False,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
    )
