"""Two brokers as processes: an NFP client at one, an HTTP worker at the other, and faults between.

`make mesh-chaos` runs every fault alone; `make test` runs them one after another.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, until

from dragoman import Client, DragomanError, JobFailed
from dragoman.dialects.peer_sides import Chunk, InputAsked, Progress
from dragoman.ledger.reader import LedgerReader
from dragoman.model.terms import read_terms
from dragoman.server.mesh import NAME_FILE
from dragoman.testing.soak.proxy import Proxy

pytestmark = pytest.mark.interop

MANAGEMENT = "mmi.service.broker"

IS_WHOLE = "DRAGOMAN_CHAOS" in os.environ
FAULT_LASTS = 2.0


class Site:
    """Broker west with its client, broker east with its worker; east connects to west."""

    def __init__(self, fleet: Fleet, broker: StartBroker, folder: Path) -> None:
        self.log = folder / "runs.log"
        self.west = broker({"nfp": "127.0.0.1:0", "mesh": "127.0.0.1:0"})
        self.proxy = Proxy(self.west.endpoints["mesh"])
        settings = f'[mesh.office]\nurl = "mesh://{self.proxy.address}"\n'
        self.east = broker({"http": "127.0.0.1:0"}, settings)
        arguments = ("tests.interop.tasks", "--service", "math", "--name", "w1")
        self.worker = fleet.dragoman(
            *("worker", *arguments, "--url", self.east.url("http")),
            env={"TASKS_LOG": str(self.log)},
        )

    def until_linked(self, client: Client) -> None:
        until(lambda: "math" in services(client), "west has the service of east", 90)

    def runs(self) -> Counter[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(line.split()[1] for line in lines if line.startswith("ran "))

    def name_of(self, broker: Broker) -> str:
        return (broker.data / NAME_FILE).read_text().strip()

    def close(self) -> None:
        self.proxy.close()


def services(client: Client) -> set[str]:
    rows = client.call(MANAGEMENT, "list_services")
    return {row["name"] for row in rows if row["workers"]}


@pytest.fixture
def site(fleet: Fleet, broker: StartBroker, tmp_path: Path) -> Iterator[Site]:
    with closing(Site(fleet, broker, tmp_path)) as found:
        yield found


def kinds(broker: Broker, job: str) -> list[str]:
    with closing(LedgerReader(broker.ledger_file)) as ledger:
        return [record.kind for record in ledger.read() if record.job == job]


@pytest.mark.timeout(240)
def test_everything_of_a_job_crosses_between_two_dialects(site: Site) -> None:
    with Client(site.west.url()) as client:
        site.until_linked(client)
        check_results(client)
        check_events(client)
        check_cancel(site, client)
        check_deadline(site, client)
        check_records(site, client)


def check_results(client: Client) -> None:
    quick = client.options(timeout=60)
    assert quick.call("math", "add", x=2, y=3) == 5
    with pytest.raises(JobFailed, match="broken on purpose"):
        quick.call("math", "broken")


def check_events(client: Client) -> None:
    steps = client.submit("math", "steps", n=3)
    told = [e.event for e in steps.events() if isinstance(e, Progress)]
    assert told == [{"step": 0}, {"step": 1}, {"step": 2}]
    poured = client.submit("math", "pour", chunks=3)
    assert [e.data for e in poured.events() if isinstance(e, Chunk)] == [b"0;", b"1;", b"2;"]
    asked = client.submit("math", "confirm")
    for event in asked.events():
        if isinstance(event, InputAsked):
            asked.give_input(event.request, "yes", event.worker)
    assert asked.result(timeout=60) == "yes"


def check_cancel(site: Site, client: Client) -> None:
    """Cancel a job; before, the first broker says what the next one says about it."""
    job = client.submit("math", "patient", seconds=60)
    said = f"broker {site.name_of(site.east)} says: on w1 since"
    until(lambda: said in why(client, job.id), "west says what east says")
    (row,) = client.call(MANAGEMENT, "show_mesh")["neighbours"]
    assert (row["state"], row["offers"], row["jobs"]) == ("linked", ["math"], 1)
    job.cancel()
    with pytest.raises(JobFailed):
        job.result(timeout=60)
    until(lambda: "ended" in kinds(site.east, job.id), "it has ended at east")
    assert "cancel_asked" in kinds(site.east, job.id)


def check_deadline(site: Site, client: Client) -> None:
    job = client.options(timeout=2.0).submit("math", "patient", seconds=60)
    with pytest.raises(DragomanError):
        job.result(timeout=60)
    until(lambda: "ended" in kinds(site.east, job.id), "it has ended at east")


def check_records(site: Site, client: Client) -> None:
    """One id, one run, on record in both ledgers; the next one has the path."""
    job = client.submit("math", "add", x=1, y=1)
    assert job.result(timeout=60) == 2
    assert kinds(site.west, job.id) == ["submitted", "dispatched", "accepted", "ended"]
    west = site.name_of(site.west)
    with closing(LedgerReader(site.east.ledger_file)) as ledger:
        record = next(r for r in ledger.read() if r.job == job.id and r.kind == "submitted")
    assert read_terms(record.terms).path == (west,)
    assert record.client == f"mesh/{west}"


def why(client: Client, job: str) -> str:
    words: str = client.call(MANAGEMENT, "why", job)["words"]
    return words


def kill_west(site: Site) -> None:
    site.west.kill()
    time.sleep(FAULT_LASTS)
    site.west.start()


def kill_east(site: Site) -> None:
    site.east.kill()
    time.sleep(FAULT_LASTS)
    site.east.start()


def cut(site: Site) -> None:
    site.proxy.cut()
    time.sleep(FAULT_LASTS)
    site.proxy.mend()


def freeze_east(site: Site) -> None:
    """Let east stand still for longer than a link may be silent."""
    site.east.freeze()
    time.sleep(8.0)
    site.east.thaw()


FAULTS: dict[str, Callable[[Site], None]] = {
    "kill of the first broker": kill_west,
    "kill of the next broker": kill_east,
    "cut": cut,
    "pause of the next broker": freeze_east,
}


@pytest.mark.timeout(300)
@pytest.mark.skipif(not IS_WHOLE, reason="only in `make mesh-chaos`")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_no_work(site: Site, name: str) -> None:
    work_through(site, [name], (0.2, 3.0, 9.0))


@pytest.mark.timeout(240)
def test_faults_of_both_brokers_and_of_the_link_cost_no_work(site: Site) -> None:
    faults = ["kill of the first broker", "kill of the next broker", "cut"]
    work_through(site, faults, (0.2, 2.0, 6.0, 12.0))


def work_through(site: Site, faults: list[str], durations: tuple[float, ...]) -> None:
    """Run jobs while one fault comes after another: all succeed, and none runs twice."""
    with Client(site.west.url()) as client:
        site.until_linked(client)
        jobs = [client.submit("math", "noted", seconds=each) for each in durations]
        until(lambda: len(site.runs()) == len(jobs), "all jobs have started")
        for name in faults:
            FAULTS[name](site)
        assert all(job.result(timeout=120) for job in jobs)
    assert not {job: count for job, count in site.runs().items() if count > 1}
    for job in jobs:
        assert kinds(site.west, job.id).count("ended") == 1
        assert kinds(site.east, job.id).count("dispatched") == 1
