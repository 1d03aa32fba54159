"""NorFab's own client, worker and file worker (0.25.0), each in a process of its own.

Run as a module this is such a process; imported, it is the test's hold on one. The client takes
its orders through a connection of `multiprocessing`, one after the other.
"""

import contextlib
import os
import sys
import threading
import time
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

from tests.interop import matrix_tasks
from tests.interop.harness import Fleet, Process

AUTHKEY: Final = b"only among ourselves"
#: Where peers find the public key of a broker that has one.
SERVER_KEY: Final = "NORFAB_TEST_SERVER_KEY"


class RealClient:
    """A test's hold on a NorFab client."""

    def __init__(self, fleet: Fleet, endpoint: str, name: str = "real-client") -> None:
        state = fleet.folder / f"state-{name}"
        state.mkdir()
        with Listener(("127.0.0.1", 0), authkey=AUTHKEY) as listener:
            port = str(listener.address[1])
            self.process = _start(fleet, "client", endpoint, name, str(state), port)
            self._line: Connection = listener.accept()

    def begin(self, verb: str, **options: Any) -> None:
        """Let the client do something, without waiting."""
        self._line.send((verb, options))

    def answer(self, at_most: float = 50.0) -> Any:
        """What came of it."""
        assert self._line.poll(at_most), "NorFab's client has not answered"
        found = self._line.recv()
        if isinstance(found, Exception):
            raise found
        return found

    def ask(self, verb: str, at_most: float = 50.0, **options: Any) -> Any:
        self.begin(verb, **options)
        return self.answer(at_most)


def start_worker(
    fleet: Fleet, endpoint: str, name: str, service: str = "probe", *, kind: str = "worker"
) -> Process:
    """Start a NorFab worker; `kind` may be `files`."""
    state = fleet.folder / f"state-{name}"
    state.mkdir(exist_ok=True)
    return _start(fleet, kind, endpoint, name, str(state), service)


def _start(fleet: Fleet, *arguments: str) -> Process:
    return fleet.python("-m", "tests.interop.norfab_peers", *arguments, name=arguments[2])


# --- inside the processes ---------------------------------------------------------------------


def _inventory(state: str) -> Any:
    from norfab.core.inventory import NorFabInventory

    # A broker with CURVE is named by its public key, which is no secret.
    key = os.environ.get(SERVER_KEY, "")
    broker = {"zmq_auth": True, "shared_key": key} if key else {"zmq_auth": False}
    return NorFabInventory(data={"broker": broker}, base_dir=state)


class _Served:
    """What a test may ask a NorFab client to do."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.futures: dict[str, Any] = {}

    def run(self, service: str, task: str, timeout: int = 40, **options: Any) -> dict[str, Any]:
        """Run a job; say how long it took."""
        begun = time.monotonic()
        result = self.client.run_job(service, task, timeout=timeout, **options)
        return {"result": result, "seconds": time.monotonic() - begun}

    def submit(self, service: str, task: str, timeout: int = 60, **options: Any) -> str:
        future = self.client.submit_job(service, task, timeout=timeout, **options)
        self.futures[future.uuid] = future
        return str(future.uuid)

    def result(self, uuid: str, timeout: float = 40.0) -> Any:
        return self.futures[uuid].result(timeout=timeout)

    def state(self, uuid: str) -> dict[str, Any]:
        """Return the client's own record of a job."""
        job = self.client.job_db.get_job(uuid)
        return {key: job[key] for key in ("status", "workers_dispatched", "errors")}

    def converse(self, service: str, task: str, answer: Any, **options: Any) -> dict[str, Any]:
        """Run a job, answer its question, and return its events with the result."""
        begun = time.monotonic()
        future = self.client.submit_job(service, task, timeout=30, **options)
        events = []
        for event in future.events(timeout=12):
            events.append(event)
            if event["event_type"] == "input_request":
                asked = event["extras"]["input_request"]["id"]
                future.send_response(asked, answer, worker=event["worker"])
        result = future.result(timeout=12)
        return {"events": events, "result": result, "seconds": time.monotonic() - begun}

    def burst(self, service: str, task: str, count: int, **options: Any) -> list[Any]:
        """Submit many jobs at once; return every result."""
        futures = [self.client.submit_job(service, task, **options) for _ in range(count)]
        return [future.result(timeout=50) for future in futures]

    def many(
        self, service: str, task: str, calls: list[list[Any]], timeout: int
    ) -> list[tuple[Any, dict[str, Any]]]:
        """Submit a job for each list of arguments; return results and the client's own records."""
        jobs = [
            self.client.submit_job(service, task, args=args, workers="any", timeout=timeout)
            for args in calls
        ]
        # A second more: the client itself says that a job has timed out.
        return [(job.result(timeout=timeout + 1), self.state(job.uuid)) for job in jobs]

    def mmi(self, service: str, task: str, **options: Any) -> Any:
        return self.client.mmi(service, task, timeout=8, **options)

    def validated_stats(self) -> dict[str, Any]:
        """Ask the broker for its figures; let NorFab's strict model check them."""
        import json

        from norfab.core.monitoring import BrokerMonitoringStats

        said = self.client.mmi("mmi.service.broker", "get_stats", timeout=8)["results"]
        found = BrokerMonitoringStats.model_validate_json(json.dumps(said))
        return dict(found.model_dump(mode="json"))

    def fetch(self, url: str, **options: Any) -> dict[str, Any]:
        begun = time.monotonic()
        found = self.client.fetch_file(url, timeout=40, **options)
        return {**found, "seconds": time.monotonic() - begun}


def _client(endpoint: str, name: str, state: str, port: str) -> None:
    from norfab.core.client import NFPClient

    served = _Served(NFPClient(_inventory(state), endpoint, name))
    with Client(("127.0.0.1", int(port)), authkey=AUTHKEY) as line, contextlib.suppress(EOFError):
        while True:
            verb, options = line.recv()
            try:
                line.send(getattr(served, verb)(**options))
            except Exception as error:
                line.send(error)


def _probe() -> type:
    from norfab.core.worker import Job, NFPWorker, Task
    from norfab.models import Result

    class Probe(NFPWorker):  # type: ignore[misc]
        @Task()  # type: ignore[untyped-decorator]
        def add(self, x: int, y: int = 0) -> Result:
            """Add two integers."""
            return Result(result=x + y)

        @Task()  # type: ignore[untyped-decorator]
        def steps(self, job: Job, n: int = 3) -> Result:
            """Report n times."""
            for i in range(n):
                job.event(f"step {i}", extras={"i": i})
            return Result(result=n)

        @Task()  # type: ignore[untyped-decorator]
        def confirm(self, job: Job) -> Result:
            """Ask the client a question."""
            return Result(result=job.request_input("proceed?", timeout=20))

        @Task()  # type: ignore[untyped-decorator]
        def slow(self, seconds: float = 1.0) -> Result:
            """Take some time, by the clock of the wall."""
            until = time.time() + seconds
            while time.time() < until:
                time.sleep(0.05)
            return Result(result=seconds)

        @Task()  # type: ignore[untyped-decorator]
        def echo(self, value: Any) -> Result:
            """Return what was given."""
            return Result(result=value)

        @Task()  # type: ignore[untyped-decorator]
        def refuse(self) -> Result:
            """Fail, with the words of the matrix."""
            raise RuntimeError("refused, as asked")

        @Task()  # type: ignore[untyped-decorator]
        def noted(self, path: str, seconds: float) -> Result:
            """Leave a trace of the beginning, and say who did it; the first worker takes long."""
            return Result(result=matrix_tasks.noted(path, seconds))

        @Task()  # type: ignore[untyped-decorator]
        def broken(self) -> Result:
            """Fail."""
            raise RuntimeError("broken on purpose")

    return Probe


def _worker(endpoint: str, name: str, state: str, service: str) -> None:
    worker = _probe()(_inventory(state), endpoint, service, name, threading.Event())
    # NorFab's own default is 5; the matrix lets more callers than that wait for one worker.
    worker.max_concurrent_jobs = 16
    worker.work()


def _files(endpoint: str, name: str, state: str, service: str) -> None:
    from norfab.workers.filesharing_worker.filesharing_worker import FileSharingWorker

    stop, ready = threading.Event(), threading.Event()
    FileSharingWorker(_inventory(state), endpoint, name, stop, ready).work()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    {"client": _client, "worker": _worker, "files": _files}[sys.argv[1]](*sys.argv[2:])
