"""The stage of the matrix: one broker with all links, our workers and clients of every dialect."""

from pathlib import Path
from typing import Any, Final

from tests.interop.harness import Broker, Fleet, Process, until
from tests.interop.matrix_table import CLIENTS, WORKERS

from dragoman import Client
from dragoman.dialects.listeners import LISTENERS

LINKS: Final = tuple(each.name for each in LISTENERS)
#: Short enough that a lost worker is noticed within a test.
SETTINGS: Final = """
[nfp]
beat_every = 0.5
missed_allowed = 6
poll_every = 2.0
[dcp]
missed_allowed = 4
missed_allowed_busy = 8
[zss]
# The service on Node takes requests side by side.
credit = 100
[mdp]
beat_every = 1.0
[memo]
beat_every = 1.0
beat_answer = 3.0
[http]
beat_every = 0.5
[ncl]
heartbeat_interval = 1.0
disconnect_timeout = 4.0
grace = 1.0
"""
_WORKER_LINK: Final = {"zss": "zss_backend", "ncl": "nats"}

#: How many workers one process is, where the protocol lets each have one job at a time.
CREW: Final = {"memo": 8, "pynng": 16}
VALUES: Final[list[Any]] = [
    None,
    True,
    False,
    0,
    -7,
    2**31 - 1,
    3.25,
    "",
    "naïve ☃",
    [],
    [1, [2, [3]]],
    {},
    {"a": {"b": [None, True, "x"]}},
    b"\x00\xff",
]


class Stage:
    """One broker with all links, a worker per dialect, and a client per dialect."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        self.fleet = Fleet(folder)
        self.folder = folder
        self.broker: Broker = self.fleet.broker({name: _endpoint(name) for name in LINKS}, settings)
        self.workers: dict[str, Process] = {d: self.worker(d) for d in WORKERS}
        self.clients = {d: Client(self.url(d)) for d in CLIENTS}
        self.wait_for(*(f"mx-{d}" for d in WORKERS))

    def url(self, dialect: str, *, is_worker: bool = False) -> str:
        link = _WORKER_LINK.get(dialect, dialect) if is_worker else dialect
        return f"{dialect}://{self.broker.endpoints[link].partition('://')[2]}"

    def worker(self, dialect: str, service: str = "", name: str = "") -> Process:
        url = self.url(dialect, is_worker=True)
        if dialect == "ncl":
            url += "?heartbeat_interval=1"
        words = ["worker", "tests.interop.matrix_tasks", "--service", service or f"mx-{dialect}"]
        return self.fleet.dragoman(*words, "--url", url, *(["--name", name] if name else []))

    def wait_for(self, *services: str, workers: int = 1) -> None:
        def there() -> bool:
            rows = self.clients["nfp"].call("mmi.service.broker", "list_services", timeout=10)
            return set(services) <= {r["name"] for r in rows if r["workers"] >= workers}

        until(there, f"workers for {services}", 180, every=0.1)

    def wait_until_running(self, service: str, task: str) -> None:
        def is_running() -> bool:
            nfp = self.clients["nfp"]
            rows = nfp.call("mmi.service.broker", "show_jobs", state="running", timeout=10)
            return any(row["task"] == task and row["service"] == service for row in rows)

        until(is_running, "the job runs", 20, every=0.05)

    def end(self) -> None:
        for client in self.clients.values():
            client.close()
        self.fleet.end()


def _endpoint(link: str) -> str:
    if link == "nats":
        return ""
    return "http://127.0.0.1:0" if link == "http" else "127.0.0.1:0"
