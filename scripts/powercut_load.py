"""Load for power cuts: a worker, and callers who note what the broker has promised them.

`python -m scripts.powercut_load HTTP_URL` writes `taken JOB` for each acknowledged job and
`told JOB` for each result that it was told. It is killed when the power goes out.
"""

import contextlib
import http.client
import json
import os
import sys
import threading
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from dragoman import Worker

SERVICE = "cut"
#: A service without workers: its jobs stay queued.
WAITING = "wait"
#: The callers: their service, and the jobs of one submission.
CALLERS = ((SERVICE, 1), (SERVICE, 1), (WAITING, 200))


class NotingCaller(threading.Thread):
    """Submits batches of jobs, and waits for the result of the first of each batch."""

    def __init__(self, url: str, service: str, size: int) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        self._service, self._size = service, size

    def run(self) -> None:
        """Submit until the connection breaks."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                self._submit()

    def _submit(self) -> None:
        jobs: list[dict[str, Any]] = [
            {"service": self._service, "task": "echo", "args": ["x" * 50], "job": uuid.uuid4().hex}
            for _ in range(self._size)
        ]
        outcomes = self._ask("POST", "/v1/jobs/bulk", {"jobs": jobs})["jobs"]
        note("taken", [each["job"] for each in outcomes if "state" in each])
        if self._service == SERVICE:
            told = self._ask("GET", f"/v1/jobs/{jobs[0]['job']}/result?wait=5")
            note("told", [jobs[0]["job"]] if told.get("state") == "succeeded" else [])

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        sent = json.dumps(body) if body is not None else None
        self._connection.request(method, path, sent, {"Content-Type": "application/json"})
        return json.loads(self._connection.getresponse().read())


def note(word: str, jobs: Sequence[str]) -> None:
    """Write one line for each job, at once."""
    os.write(1, "".join(f"{word} {job}\n" for job in jobs).encode())


def main(url: str) -> None:
    """Make load until the end of this process."""
    worker = Worker(url, service=SERVICE, name="cut-worker")
    worker.task(lambda text: text, name="echo")
    with worker.start():
        for service, size in CALLERS:
            NotingCaller(url, service, size).start()
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
