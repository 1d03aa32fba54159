"""Broker outages while jobs run: every job ends, none is lost, none runs twice.

One SDK worker per dialect runs three jobs: one ends before the outage, one during it, one after
it. `make chaos` runs every fault; `make test` runs the first two.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, Process, until

from dragoman import Client, DragomanError, Job

pytestmark = pytest.mark.interop

LINKS = dict.fromkeys(
    ("nfp", "dcp", "zss", "zss_backend", "memo", "nats", "http", "mdp"), "127.0.0.1:0"
)
#: The dialect of each worker, and the link that it connects to.
WORKERS = {
    "nfp": "nfp",
    "dcp": "dcp",
    "zss": "zss_backend",
    "memo": "memo",
    "ncl": "nats",
    "http": "http",
    "mdp": "mdp",
}
#: When jobs end, in seconds after their start: before, during and after the outage.
BEFORE, DURING, AFTER = 0.2, 4.0, 12.0
OUTAGE_STARTS, OUTAGE = 2.0, 5.0
IS_WHOLE = "DRAGOMAN_CHAOS" in os.environ

Fault = Callable[[Broker, dict[str, Process]], None]
#: What each fault came to, by fault and dialect: jobs that ended, ran twice, were lost.
TABLE: dict[tuple[str, str], tuple[int, int, int]] = {}


def kill(broker: Broker, workers: dict[str, Process]) -> None:
    broker.kill()
    time.sleep(OUTAGE)
    broker.start()


def terminate(broker: Broker, workers: dict[str, Process]) -> None:
    """Stop at once: a second SIGTERM ends the drain."""
    broker.signal(signal.SIGTERM)
    broker.until_it_says("drain")
    broker.signal(signal.SIGTERM)
    broker.wait()
    time.sleep(OUTAGE)
    broker.start()


def pause(seconds: float) -> Fault:
    def stand_still(broker: Broker, workers: dict[str, Process]) -> None:
        broker.freeze()
        time.sleep(seconds)
        broker.thaw()

    return stand_still


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "terminate": terminate,
    "pause of 5 s": pause(5.0),
    "pause of 16 s": pause(16.0),
    "pause of 60 s": pause(60.0),
}
SLICE = ("kill", "pause of 5 s")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FAULTS if IS_WHOLE else SLICE)
def test_an_outage_of_the_broker_costs_no_work(
    fleet: Fleet, broker: StartBroker, tmp_path: Path, name: str
) -> None:
    one = broker(LINKS)
    log = tmp_path / "runs.log"
    workers = {dialect: start_worker(fleet, one, dialect, log) for dialect in WORKERS}
    with Client(one.url("http")) as client:
        until(lambda: len(joined(client)) == len(WORKERS), "all workers have joined", 90)
        jobs = {
            (dialect, seconds): client.submit(dialect, "noted", seconds=seconds)
            for dialect in WORKERS
            for seconds in (BEFORE, DURING, AFTER)
        }
        until(lambda: len(runs(log)) == len(jobs), "all jobs have started")
        time.sleep(OUTAGE_STARTS)
        FAULTS[name](one, workers)
        ended = {key for key, job in jobs.items() if has_ended(job)}
    twice = {key for key, job in jobs.items() if runs(log)[job.id] > 1}
    note(name, jobs, ended, twice)
    assert not set(jobs) - ended, f"lost: {sorted(set(jobs) - ended)}"
    assert not twice, f"ran twice: {sorted(twice)}"


@pytest.mark.timeout(300)
@pytest.mark.skipif(not IS_WHOLE, reason="only in `make chaos`")
def test_workers_that_die_with_the_broker_lose_no_job(
    fleet: Fleet, broker: StartBroker, tmp_path: Path
) -> None:
    """What ran on a killed worker runs again, on the next one. The job that had ended does not."""
    one = broker(LINKS)
    log = tmp_path / "runs.log"
    workers = {dialect: start_worker(fleet, one, dialect, log) for dialect in WORKERS}
    with Client(one.url("http")) as client:
        until(lambda: len(joined(client)) == len(WORKERS), "all workers have joined", 90)
        jobs = {
            (dialect, seconds): client.submit(dialect, "noted", seconds=seconds)
            for dialect in WORKERS
            for seconds in (BEFORE, DURING, AFTER)
        }
        until(lambda: len(runs(log)) == len(jobs), "all jobs have started")
        before = {dialect: jobs[dialect, BEFORE] for dialect in WORKERS}
        assert all(has_ended(job) for job in before.values())
        for worker in workers.values():
            worker.kill()
        kill(one, workers)
        for dialect in WORKERS:
            start_worker(fleet, one, dialect, log)
        ended = {key for key, job in jobs.items() if has_ended(job)}
    twice = {key for key, job in jobs.items() if runs(log)[job.id] > 1}
    note("both killed", jobs, ended, twice)
    assert not set(jobs) - ended, f"lost: {sorted(set(jobs) - ended)}"
    assert not {key for key in twice if key[1] == BEFORE}, "a job that had ended ran again"


def has_ended(job: Job) -> bool:
    """Wait for the end of a job; tell whether it succeeded in time."""
    try:
        return bool(job.result(timeout=120))
    except DragomanError:
        return False


def note(
    fault: str,
    jobs: Iterable[tuple[str, float]],
    ended: set[tuple[str, float]],
    twice: set[tuple[str, float]],
) -> None:
    """Add a fault to the table that the end of the run prints."""
    for dialect in WORKERS:
        mine = {key for key in jobs if key[0] == dialect}
        counts = len(mine & ended), len(mine & twice), len(mine - ended)
        TABLE[fault, dialect] = counts


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """Print the table after the last test."""
    yield
    if TABLE:
        lines = [f"{'fault':16}{'dialect':9}{'ended':>6}{'twice':>7}{'lost':>6}"]
        for (fault, dialect), counts in TABLE.items():
            ended, twice, lost = counts
            lines.append(f"{fault:16}{dialect:9}{ended:6}{twice:7}{lost:6}")
        print("\n" + "\n".join(lines))


def start_worker(fleet: Fleet, broker: Broker, dialect: str, log: Path) -> Process:
    endpoint = broker.endpoints[WORKERS[dialect]].partition("://")[2]
    arguments = ("tests.interop.tasks", "--service", dialect, "--name", f"w-{dialect}")
    env = {"TASKS_LOG": str(log)}
    return fleet.dragoman("worker", *arguments, "--url", f"{dialect}://{endpoint}", env=env)


def joined(client: Client) -> set[str]:
    rows = client.call("mmi.service.broker", "list_services", timeout=10)
    return {row["name"].lower() for row in rows if row["workers"]} & set(WORKERS)


def runs(log: Path) -> Counter[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(line.split()[1] for line in lines if line.startswith("ran "))
