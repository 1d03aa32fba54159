"""A real Bacalhau: its orchestrator and compute node as processes, used over its HTTP API.

`make interop-bacalhau` builds the binary and passes its path in `BACALHAU`.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.interop.harness import free_port

BINARY: Final = os.environ.get("BACALHAU", "")
_FINAL: Final = ("Completed", "Failed", "Stopped")


def wait_until(found: Callable[[], Any], what: str, at_most: float = 90.0) -> Any:
    """Poll until `found` returns something true."""
    until = time.monotonic() + at_most
    while not (result := found()):
        assert time.monotonic() < until, f"not within {at_most:g} s: {what}"
        time.sleep(0.2)
    return result


class Bacalhau:
    """One `bacalhau serve` process on its own data folder; it keeps its ports over restarts."""

    def __init__(self, folder: Path, *roles: str, **config: str) -> None:
        self._folder = folder
        self.api = f"http://127.0.0.1:{(port := free_port())}"
        quiet = {"DisableAnalytics": "true", "UpdateConfig.Interval": "0", "WebUI.Enabled": "false"}
        pairs = {"API.Host": "127.0.0.1", "API.Port": str(port), **quiet, **config}
        options = [word for key, text in pairs.items() for word in ("-c", f"{key}={text}")]
        self._command = [BINARY, "serve", *roles, *options]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and wait for its API."""
        self._folder.mkdir(exist_ok=True)
        env = os.environ | {"BACALHAU_DIR": str(self._folder / "repo"), "HOME": str(self._folder)}
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=env, stdout=log, stderr=subprocess.STDOUT
            )
        wait_until(self._is_alive, "bacalhau answers")

    def _is_alive(self) -> bool:
        try:
            return bool(self.get("/api/v1/agent/alive"))
        except (URLError, ConnectionError):
            return False

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> Any:
        """Read one JSON document."""
        with urlopen(self.api + path, timeout=20) as answer:
            return json.load(answer)

    def send(self, method: str, path: str, content: Any = None) -> Any:
        """Send a request with a JSON body."""
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(self.api + path, body, headers, method=method), timeout=20) as answer:
            return json.load(answer)

    # --- jobs -----------------------------------------------------------------------------------

    def submit(self, task: str, *args: Any, kind: str = "batch", **kwargs: Any) -> str:
        """Submit a call of the service `probe`; return the job's id."""
        params = {"task": task, "args": list(args), "kwargs": kwargs}
        main = {
            "Name": "main",
            "Engine": {"Type": "probe", "Params": params},
            "Publisher": {"Type": ""},
            "Resources": {"CPU": "1m", "Memory": "1mb"},
            "Timeouts": {"QueueTimeout": 60},
        }
        job = {"Name": task, "Namespace": "default", "Type": kind, "Count": 1, "Tasks": [main]}
        answer = self.send("PUT", "/api/v1/orchestrator/jobs", {"Job": job})
        return str(answer["JobID"])

    def state(self, job: str) -> str:
        """Return the state of a job."""
        return str(self.get(f"/api/v1/orchestrator/jobs/{job}")["Job"]["State"]["StateType"])

    def ended(self, job: str, at_most: float = 90.0) -> str:
        """Wait until a job has ended; return its state."""
        return str(
            wait_until(
                lambda: state if (state := self.state(job)) in _FINAL else "",
                f"job {job} has ended",
                at_most,
            )
        )

    def executions(self, job: str) -> list[dict[str, Any]]:
        """Return the executions of a job."""
        return list(self.get(f"/api/v1/orchestrator/jobs/{job}/executions")["Items"])

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return the nodes by id."""
        found = self.get("/api/v1/orchestrator/nodes")["Nodes"]
        return {node["Info"]["NodeID"]: node for node in found}


@contextmanager
def orchestrator(folder: Path) -> Iterator[tuple[Bacalhau, str]]:
    """Run an orchestrator with its own NATS server; yield it and the server's address."""
    port = free_port()
    config = {"Orchestrator.Host": "127.0.0.1", "Orchestrator.Port": str(port)}
    made = Bacalhau(folder, "--orchestrator", **config)
    made.start()
    try:
        yield made, f"tcp://127.0.0.1:{port}"
    finally:
        made.kill()


@contextmanager
def compute_node(folder: Path, nats: str) -> Iterator[Bacalhau]:
    """Run a compute node that joins the orchestrator at a NATS address."""
    made = Bacalhau(
        folder, "--compute", **{"Compute.Orchestrators": nats.replace("tcp://", "nats://")}
    )
    made.start()
    try:
        yield made
    finally:
        made.kill()
