"""Clients of NFP, DCP and ZSS with workers of NFP, DCP and ZSS: nine pairs on one real broker."""

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from tests.interop.harness import Broker, Fleet, Process, until

from dragoman import Client
from dragoman.dialects.peer_sides import Chunk, InputAsked, Progress
from dragoman.sdk.errors import Cancelled, Expired, JobFailed, StillRunning

pytestmark = pytest.mark.interop

DIALECTS = ("nfp", "dcp", "zss")
PAIRS = list(product(DIALECTS, DIALECTS))
LINKS = dict.fromkeys((*DIALECTS, "zss_backend"), "127.0.0.1:0")


def start_worker(fleet: Fleet, broker: Broker, dialect: str, service: str) -> Process:
    """Start a worker process with the tasks that all tests share."""
    link = "zss_backend" if dialect == "zss" else dialect
    url = f"{dialect}://{broker.endpoints[link].partition('://')[2]}"
    words = ("worker", "tests.interop.tasks", "--service", service, "--url", url)
    return fleet.dragoman(*words, "--name", f"{service}-{len(fleet.processes)}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a worker of each dialect, whose service is named after it."""
    fleet = Fleet(tmp_path_factory.mktemp("pairs"))
    broker = fleet.broker(LINKS)
    for dialect in DIALECTS:
        start_worker(fleet, broker, dialect, f"tasks-{dialect}")
    with Client(broker.url("nfp")) as client:
        for dialect in DIALECTS:
            assert client.call(f"tasks-{dialect}", "add", x=1, y=1, timeout=30) == 2
    yield broker
    fleet.end()


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]} to {pair[1]}")
def pair(request: pytest.FixtureRequest, site: Broker) -> Iterator[tuple[Client, str]]:
    """A client, and the service of a worker."""
    asking, working = request.param
    with Client(site.url(asking)) as client:
        yield client, f"tasks-{working}"


def test_arguments_and_results_cross(pair: tuple[Client, str]) -> None:
    client, service = pair
    assert client.call(service, "add", 2, 3, timeout=20) == 5
    assert client.call(service, "add", x=2, y=3, timeout=20) == 5
    assert client.call(service, "add", 2, y=3, timeout=20) == 5
    assert client.call(service, "add", 2, timeout=20) == 2


def test_a_failure_crosses_with_its_words(pair: tuple[Client, str]) -> None:
    client, service = pair
    with pytest.raises(JobFailed, match="broken on purpose"):
        client.call(service, "broken", timeout=20)
    with pytest.raises(JobFailed, match="no_such_task"):
        client.call(service, "no_such_task", timeout=20)


def test_reports_pieces_and_questions_cross(pair: tuple[Client, str]) -> None:
    client, service = pair
    job = client.submit(service, "steps", n=3)
    reports = [e.event for e in job.events() if isinstance(e, Progress)]
    assert reports == [{"step": n} for n in range(3)]
    assert job.result(timeout=20) == 3
    job = client.submit(service, "pour", chunks=4)
    assert b"".join(e.data for e in job.events() if isinstance(e, Chunk)) == b"0;1;2;3;"
    assert job.result(timeout=20) == 4
    job = client.submit(service, "confirm")
    for event in job.events():
        if isinstance(event, InputAsked):
            assert event.question == "proceed?"
            job.give_input(event.request, {"yes": True}, event.worker)
    assert job.result(timeout=20) == {"yes": True}


def test_a_deadline_holds_across(pair: tuple[Client, str]) -> None:
    client, service = pair
    began = time.monotonic()
    with pytest.raises((Expired, StillRunning)):
        client.call(service, "patient", seconds=30, timeout=1.0)
    assert time.monotonic() - began < 10


def test_a_cancel_crosses_and_is_confirmed(pair: tuple[Client, str]) -> None:
    client, service = pair
    job = client.submit(service, "patient", seconds=30)
    next(e for e in job.events() if isinstance(e, Progress))
    job.cancel(timeout=20)
    with pytest.raises(Cancelled) as caught:
        job.result(timeout=20)
    # Not `cancel_unconfirmed`: the worker itself said that it has stopped.
    assert caught.value.fault.code == "cancelled"


def test_a_service_nobody_offers_is_said_to_be_unknown(site: Broker) -> None:
    with Client(site.url("zss")) as client, pytest.raises(JobFailed) as caught:
        client.call("ghost", "add", timeout=20)
    assert caught.value.fault.code == "no_worker"


@pytest.mark.parametrize("working", DIALECTS)
def test_the_jobs_of_a_worker_that_dies_go_to_another(
    site: Broker, fleet: Fleet, working: str
) -> None:
    service = f"mortal-{working}"
    first = start_worker(fleet, site, working, service)
    clients = [Client(site.url(asking)) for asking in DIALECTS]
    try:
        until(lambda: _is_served(clients[0], service), f"{service} is there", every=0.2)
        jobs = [client.submit(service, "slow", seconds=3.0) for client in clients]
        for job in jobs:
            until(lambda job=job: _workers(job), "it is with a worker")  # type: ignore[misc]
        first.kill()
        start_worker(fleet, site, working, service)
        assert [job.result(timeout=45) for job in jobs] == [3.0] * 3
    finally:
        for client in clients:
            client.close()


def _is_served(client: Client, service: str) -> bool:
    try:
        return bool(client.call(service, "add", x=1, timeout=2) == 1)
    except (JobFailed, StillRunning):
        return False


def _workers(job: Any) -> Any:
    return job.workers
