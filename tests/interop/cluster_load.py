"""Load on a cluster, with books of its own: what was acknowledged, what came back, what ran."""

import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.interop.cluster_nodes import Cluster
from tests.interop.harness import Fleet

from dragoman import Client, DragomanError, Job, JobFailed
from dragoman.ledger.reader import LedgerReader
from dragoman.model.record import Kind, Record

#: Jobs that each client keeps open.
WINDOW: Final = 8
#: Seconds in which a job of a healthy cluster ends, however busy the machine is.
LATEST: Final = 90.0
SERVICE: Final = "load"


class LoadClient(threading.Thread):
    """Submits jobs until it is told to stop; then waits for all of them."""

    def __init__(self, dialect: str, url: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.dialect = dialect
        self._url = url
        self.is_loading = True
        #: Acknowledged jobs, with the time of the acknowledgement.
        self.acknowledged: dict[str, float] = {}
        #: How each job ended, as this client was told.
        self.ended: dict[str, str] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with Client(self._url, self.name) as client:
                while self.is_loading:
                    self._submit_some(client)
        except BaseException as error:
            self.error = error

    def _submit_some(self, client: Client) -> None:
        caller = client.options(timeout=LATEST)
        jobs = [caller.submit(SERVICE, "noted") for _ in range(WINDOW)]
        for job in jobs:
            # A refused job is done, and never was acknowledged.
            if job.wait_until_acknowledged(LATEST) and job.asynchronous.is_acknowledged:
                self.acknowledged[job.id] = time.monotonic()
        for job in jobs:
            self.ended[job.id] = outcome(job)
        refused = {self.ended[job.id] for job in jobs} - {"succeeded"}
        assert not refused, f"{self.name}: {refused}"


def outcome(job: Job) -> str:
    try:
        job.result(LATEST)
    except JobFailed as error:
        return str(error.fault.code)
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"
    return "succeeded"


class Load:
    """Clients and workers of several dialects on all nodes of a cluster."""

    def __init__(self, fleet: Fleet, cluster: Cluster, dialects: tuple[str, ...]) -> None:
        self._log = fleet.folder / "runs.log"
        firsts = list(cluster.nodes)
        for number, dialect in enumerate(dialects):
            first = firsts[number % len(firsts)]
            url = cluster.url(dialect, for_workers=True, first=first)
            words = ("tests.interop.tasks", "--service", SERVICE, "--name", f"w-{dialect}")
            fleet.dragoman("worker", *words, "--url", url, env={"TASKS_LOG": str(self._log)})
        self.clients = [
            LoadClient(dialect, cluster.url(dialect, first=first), f"load-{dialect}-{first}")
            for dialect in dialects
            for first in firsts
        ]
        for client in self.clients:
            client.start()

    def acknowledgements(self) -> list[float]:
        """Return when jobs were acknowledged."""
        return sorted(at for each in self.clients for at in list(each.acknowledged.values()))

    def until_acknowledged(self, after: float, many: int = 1, at_most: float = LATEST) -> float:
        """Wait until jobs were acknowledged after a moment; return how long the first took."""
        deadline = time.monotonic() + at_most
        while True:
            later = [at for at in self.acknowledgements() if at > after]
            if len(later) >= many:
                return later[0] - after
            assert time.monotonic() < deadline, f"no acknowledgement for {at_most:g} s"
            time.sleep(0.01)

    def longest_gap(self, since: float, quiet: float = 2.0) -> float:
        """Wait until acknowledgements come again; return the longest time without one since."""
        self.until_acknowledged(time.monotonic() + quiet)
        times = [since, *(at for at in self.acknowledgements() if at > since)]
        return max(later - earlier for earlier, later in pairwise(times))

    def finish(self) -> None:
        """Stop, and wait until every client knows how its jobs ended."""
        for client in self.clients:
            client.is_loading = False
        for client in self.clients:
            client.join(3 * LATEST)
            assert not client.is_alive(), f"{client.name} still waits"
            if client.error is not None:
                raise client.error

    @property
    def runs(self) -> "Counter[str]":
        """How often each job ran."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return Counter(line.split()[1] for line in lines if line.startswith("ran "))

    def lost(self) -> dict[str, str]:
        """Return acknowledged jobs that did not succeed."""
        told = {job: end for each in self.clients for job, end in each.ended.items()}
        known = {job for each in self.clients for job in each.acknowledged}
        return {job: told.get(job, "?") for job in known if told.get(job) != "succeeded"}

    def twice(self) -> list[str]:
        """Return jobs that ran more than once."""
        return [job for job, count in self.runs.items() if count > 1]


def check_ledgers(paths: list[Path], load: Load) -> None:
    """Check the copies of stopped nodes: each is the beginning of the longest, which has all."""
    copies = sorted((read_all(path) for path in paths), key=len)
    longest = copies[-1]
    for copy in copies[:-1]:
        assert copy == longest[: len(copy)], "a copy differs from the others"
    assert [r.seq for r in longest] == list(range(1, len(longest) + 1)), "records are missing"
    ends = Counter(r.job for r in longest if r.kind == Kind.ENDED)
    assert not [job for job, count in ends.items() if count > 1], "a job ended twice"
    known = {job: each.name for each in load.clients for job in each.acknowledged}
    unknown = [f"{job} of {name}" for job, name in known.items() if job not in ends]
    assert not unknown, f"{len(unknown)} acknowledged jobs have no end, such as {unknown[0]}"


def read_all(path: Path) -> list[Record]:
    """Return the records of a copy."""
    reader = LedgerReader(path)
    try:
        return list(reader.read(0))
    finally:
        reader.close()
