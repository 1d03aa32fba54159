"""Load on a cluster, with books of its own: what was acknowledged, what came back, what ran."""

import threading
import time
from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from tests.interop.cluster_nodes import Cluster
from tests.interop.harness import Fleet

from dragoman import Client, DragomanError, Job, JobFailed
from dragoman.dialects.registry import DIALECTS
from dragoman.ledger.reader import LedgerReader
from dragoman.model.record import Kind, Record
from dragoman.sdk.calls import Caller

#: Jobs that each client keeps open.
WINDOW: Final = 4
#: Seconds in which a job of a healthy cluster ends, however busy the machine is.
LATEST: Final = 300.0
SERVICE: Final = "load"
#: Seconds until a probe that no worker takes ends, and between two probes.
_PROBE_LASTS: Final = 20.0
_PROBE_EVERY: Final = 0.02
#: So many dialects have a client at every node; each of the others has one.
_EVERYWHERE: Final = 2


class LoadClient(threading.Thread):
    """Submits jobs until it is told to stop; then waits for all of them."""

    def __init__(self, dialect: str, url: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.dialect = dialect
        self._url = url
        #: In other dialects the result is the only promise.
        self.acknowledges = DIALECTS[dialect].acknowledges
        self.is_loading = True
        #: Acknowledged jobs, with the time of the acknowledgement.
        self.acknowledged: dict[str, float] = {}
        #: How each job ended, as this client was told.
        self.ended: dict[str, str] = {}
        #: The jobs by what their task writes down: a memo01 worker does not know the id of a job.
        self.labels: dict[str, str] = {}
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
        jobs = [self._submit(caller) for _ in range(WINDOW)]
        for job in jobs if self.acknowledges else ():
            # A refused job is done, and never was acknowledged.
            if job.wait_until_acknowledged(LATEST) and job.asynchronous.is_acknowledged:
                self.acknowledged[job.id] = time.monotonic()
        for job in jobs:
            self.ended[job.id] = how = outcome(job)
            if not self.acknowledges and how == "succeeded":
                self.acknowledged[job.id] = time.monotonic()
        refused = {self.ended[job.id] for job in jobs} - {"succeeded"}
        assert not (self.acknowledges and refused), f"{self.name}: {refused}"

    def _submit(self, caller: Caller) -> Job:
        if not self.acknowledges:
            # If this client asks again, that is another job.
            return caller.submit(SERVICE, "noted")
        label = f"{self.name}-{len(self.labels)}"
        job = caller.submit(SERVICE, "noted", label=label)
        self.labels[label] = job.id
        return job


def outcome(job: Job) -> str:
    try:
        job.result(LATEST)
    except JobFailed as error:
        return str(error.fault.code)
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"
    return "succeeded"


class Probe(threading.Thread):
    """Submits one job after the other, for which there is no worker, and notes when it is known."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._url = url
        self.is_loading = True
        self.acknowledged: dict[str, float] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with Client(self._url, self.name) as client:
                caller = client.options(timeout=_PROBE_LASTS)
                while self.is_loading:
                    job = caller.submit("nobody", "probe")
                    job.wait_until_acknowledged(LATEST)
                    self.acknowledged[job.id] = time.monotonic()
                    time.sleep(_PROBE_EVERY)
        except BaseException as error:
            self.error = error


Thread: TypeAlias = LoadClient | Probe


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
            for number, dialect in enumerate(dialects)
            if DIALECTS[dialect].has_clients
            for first in (firsts if number < _EVERYWHERE else [firsts[number % len(firsts)]])
        ]
        self.probes = [Probe(cluster.url("nfp", first=first), f"probe-{first}") for first in firsts]
        self.threads: list[Thread] = [*self.clients, *self.probes]
        for thread in self.threads:
            thread.start()

    def acknowledgements(self, after: float) -> list[float]:
        """Return when jobs were acknowledged after a moment."""
        # Each thread notes its times in order.
        known = [list(each.acknowledged.values()) for each in self.threads]
        return sorted(at for times in known for at in times[bisect_right(times, after) :])

    def until_acknowledged(self, after: float, many: int = 1, at_most: float = LATEST) -> float:
        """Wait until jobs were acknowledged after a moment; return how long the first took."""
        deadline = time.monotonic() + at_most
        while True:
            later = self.acknowledgements(after)
            if len(later) >= many:
                return later[0] - after
            assert time.monotonic() < deadline, f"no acknowledgement for {at_most:g} s"
            time.sleep(0.01)

    def longest_gap(self, since: float, quiet: float = 2.0) -> float:
        """Wait until acknowledgements come again; return the longest time without one since."""
        self.until_acknowledged(time.monotonic() + quiet)
        times = [since, *self.acknowledgements(since)]
        return max(later - earlier for earlier, later in pairwise(times))

    def finish(self) -> None:
        """Stop, and wait until every client knows how its jobs ended."""
        for client in self.threads:
            client.is_loading = False
        for client in self.threads:
            client.join(3 * LATEST)
            assert not client.is_alive(), f"{client.name} still waits"
            if client.error is not None:
                raise client.error

    def require_alive(self) -> None:
        """Fail as soon as a client has failed."""
        for client in self.threads:
            if client.error is not None:
                raise client.error

    def rows(self) -> list[tuple[str, int, int, int, int, int]]:
        """Count by dialect: acknowledged, ended, lost, without an answer, run twice."""
        lost, twice, found = self.lost(), set(self.twice()), []
        for dialect in dict.fromkeys(client.dialect for client in self.clients):
            own = [client for client in self.clients if client.dialect == dialect]
            known = {job for client in own for job in client.acknowledged}
            ends = {job: how for client in own for job, how in client.ended.items()}
            good = sum(how == "succeeded" for how in ends.values())
            unanswered = sum(how != "succeeded" and job not in known for job, how in ends.items())
            counts = (len(known & lost.keys()), unanswered, len(twice & ends.keys()))
            found.append((dialect, len(known), good, *counts))
        return found

    @property
    def runs(self) -> "Counter[str]":
        """How often each job ran."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        ran = (line.split()[1] for line in lines if line.startswith("ran "))
        labels = {label: job for each in self.clients for label, job in each.labels.items()}
        return Counter(labels.get(word, word) for word in ran)

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
    strict = [each for each in load.clients if each.acknowledges]
    known = {job: each.name for each in strict for job in each.acknowledged}
    unknown = [f"{job} of {name}" for job, name in known.items() if job not in ends]
    taken = {r.job for r in longest if r.kind == Kind.SUBMITTED}
    unknown += [f"{job} of a probe" for p in load.probes for job in p.acknowledged.keys() - taken]
    # In the other dialects a job has no id on the wire: the broker makes one. So they are counted.
    good = {r.job for r in longest if r.kind == Kind.ENDED and r.state == "succeeded"}
    ran = Counter(r.dialect for r in longest if r.kind == Kind.SUBMITTED and r.job in good)
    for each in load.clients:
        count = sum(how == "succeeded" for how in each.ended.values())
        if not each.acknowledges and ran[each.dialect] < count:
            unknown.append(f"{count - ran[each.dialect]} jobs of {each.name}")
    assert not unknown, f"{len(unknown)} acknowledged jobs have no end, such as {unknown[0]}"


def read_all(path: Path) -> list[Record]:
    """Return the records of a copy."""
    reader = LedgerReader(path)
    try:
        return list(reader.read(0))
    finally:
        reader.close()
