"""Broker outages while workers that are not ours run jobs: the same table, without the SDK.

NorFab's worker (NFP), the ZSS service on Node, memo01 workers on pynng, and DCP workers on plain
pyzmq. None keeps results for a broker that comes back, unless its protocol or its socket does. So a
job may run twice here; it is never lost. Only `make chaos` runs this.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, until
from tests.interop.matrix_table import UPSTREAM
from tests.interop.outages import (
    IS_WHOLE,
    OUTAGES,
    STARTS,
    Key,
    Outage,
    OutageTable,
    has_ended,
)
from tests.interop.upstream import START

from dragoman import Client, Job

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not IS_WHOLE, reason="only in `make chaos`"),
]
LINKS = dict.fromkeys(("nfp", "dcp", "zss", "zss_backend", "memo", "http"), "127.0.0.1:0")
#: The service on Node takes requests side by side; DCP workers have one at a time.
SETTINGS = "[zss]\ncredit = 100\n"
DCP_WORKERS = 3
WORKERS = (*UPSTREAM, "dcp-raw")
TABLE = OutageTable()


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    """Print the table after the last test."""
    yield
    TABLE.show()


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_loses_no_job_of_workers_that_are_not_ours(
    fleet: Fleet, broker: StartBroker, tmp_path: Path, name: str
) -> None:
    one = broker(LINKS, SETTINGS)
    start_workers(fleet, one)
    with Client(one.url("http")) as client:
        jobs = start_jobs(client, tmp_path, OUTAGES[name])
        time.sleep(STARTS)
        OUTAGES[name].strike(one)
        ended = {key for key, job in jobs.items() if has_ended(job)}
    twice = {key for key in jobs if len(trace(tmp_path, key).read_text().splitlines()) > 1}
    TABLE.note(name, jobs, ended, twice)
    assert not set(jobs) - ended, f"lost: {sorted(set(jobs) - ended)}"
    assert not {key for key in twice if key[1] == "before"}, "a job that had ended ran again"
    print(f"ran twice after {name}: {sorted(twice)}")


def start_workers(fleet: Fleet, broker: Broker) -> None:
    """Start the workers; their services have their names."""
    for kind in UPSTREAM:
        START[kind](fleet, broker, kind)
    for _ in range(DCP_WORKERS):
        fleet.python("-m", "tests.interop.dcp_peer", broker.endpoints["dcp"], "dcp-raw")


def start_jobs(client: Client, folder: Path, outage: Outage) -> dict[Key, Job]:
    """Submit three jobs to each kind of worker, and wait until all run."""
    until(lambda: has_joined(client), "all workers have joined", 90)
    jobs = {
        (worker, when): submit(client, worker, trace(folder, (worker, when)), seconds)
        for worker in WORKERS
        for when, seconds in outage.durations().items()
    }
    until(lambda: all(trace(folder, key).exists() for key in jobs), "all jobs have started")
    return jobs


def submit(client: Client, worker: str, path: Path, seconds: float) -> Job:
    if worker == "dcp-raw":
        return client.options().submit_raw(worker, f"noted {seconds} {path}".encode())
    return client.submit(worker, "noted", str(path), seconds)


def trace(folder: Path, key: Key) -> Path:
    """Return the file that each run of a job adds a line to."""
    return folder / "-".join(("runs", *key))


def has_joined(client: Client) -> bool:
    rows = client.call("mmi.service.broker", "list_services", timeout=10)
    found = {row["name"].lower(): row["workers"] for row in rows}
    return all(found.get(each) for each in UPSTREAM) and found.get("dcp-raw") == DCP_WORKERS
