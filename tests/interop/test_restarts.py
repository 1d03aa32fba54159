"""Broker outages while jobs run: every job ends, none is lost, none runs twice.

One SDK worker per dialect runs three jobs: one ends before the outage, one during it, one after
it. `make chaos` runs every fault; `make test` runs the first two.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, Process, until
from tests.interop.outages import (
    IS_WHOLE,
    OUTAGES,
    SLICE,
    STARTS,
    Key,
    Outage,
    OutageTable,
    has_ended,
    kill,
)

from dragoman import Client, Job

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
TABLE = OutageTable()


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """Print the table after the last test."""
    yield
    TABLE.show()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", OUTAGES if IS_WHOLE else SLICE)
def test_an_outage_of_the_broker_costs_no_work(
    fleet: Fleet, broker: StartBroker, tmp_path: Path, name: str
) -> None:
    one = broker(LINKS)
    log = tmp_path / "runs.log"
    start_workers(fleet, one, log)
    with Client(one.url("http")) as client:
        jobs = start_jobs(client, log, OUTAGES[name])
        time.sleep(STARTS)
        OUTAGES[name].strike(one)
        ended = {key for key, job in jobs.items() if has_ended(job)}
    twice = {key for key in jobs if runs(log)[label(key)] > 1}
    TABLE.note(name, jobs, ended, twice)
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
    workers = start_workers(fleet, one, log)
    with Client(one.url("http")) as client:
        jobs = start_jobs(client, log, OUTAGES["kill"])
        assert all(has_ended(jobs[dialect, "before"]) for dialect in WORKERS)
        for worker in workers:
            worker.kill()
        kill(one)
        start_workers(fleet, one, log)
        ended = {key for key, job in jobs.items() if has_ended(job)}
    twice = {key for key in jobs if runs(log)[label(key)] > 1}
    TABLE.note("both killed", jobs, ended, twice)
    assert not set(jobs) - ended, f"lost: {sorted(set(jobs) - ended)}"
    assert not {key for key in twice if key[1] == "before"}, "a job that had ended ran again"


def start_workers(fleet: Fleet, broker: Broker, log: Path) -> list[Process]:
    """Start one worker of each dialect."""
    return [start_worker(fleet, broker, dialect, log) for dialect in WORKERS]


def start_jobs(client: Client, log: Path, outage: Outage) -> dict[Key, Job]:
    """Submit three jobs to each worker, and wait until all run."""
    until(lambda: len(joined(client)) == len(WORKERS), "all workers have joined", 90)
    jobs = {
        (dialect, when): client.submit(
            dialect, "noted", seconds=seconds, label=label((dialect, when))
        )
        for dialect in WORKERS
        for when, seconds in outage.durations().items()
    }
    until(lambda: len(runs(log)) == len(jobs), "all jobs have started")
    return jobs


def start_worker(fleet: Fleet, broker: Broker, dialect: str, log: Path) -> Process:
    endpoint = broker.endpoints[WORKERS[dialect]].partition("://")[2]
    arguments = ("tests.interop.tasks", "--service", dialect, "--name", f"w-{dialect}")
    env = {"TASKS_LOG": str(log)}
    return fleet.dragoman("worker", *arguments, "--url", f"{dialect}://{endpoint}", env=env)


def joined(client: Client) -> set[str]:
    rows = client.call("mmi.service.broker", "list_services", timeout=10)
    return {row["name"].lower() for row in rows if row["workers"]} & set(WORKERS)


def label(key: Key) -> str:
    """Return what a job of the table is called in the log."""
    return "-".join(key)


def runs(log: Path) -> Counter[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(line.split()[1] for line in lines if line.startswith("ran "))
