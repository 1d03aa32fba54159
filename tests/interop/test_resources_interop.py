"""Resources over every dialect: workers are told what they own, callers who served what."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.interop.harness import Broker, Fleet, until

from dragoman import Client, Worker
from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.registry import DIALECTS
from dragoman.model.target import OnResource
from dragoman.sdk.context import JobContext

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

LINKS: Final = tuple(each.name for each in LISTENERS)
_WORKER_LINK: Final = {"zss": "zss_backend", "ncl": "nats"}
#: Clients that can say whom a job is for.
CALLERS: Final = ("nfp", "dcp", "zss", "http")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with all links, whose inventory has four resources for each dialect's service."""
    folder = tmp_path_factory.mktemp("resources")
    lines = [f"  net-{d}: {{names: {names(d)}}}" for d in DIALECTS]
    inventory = folder / "inventory"
    inventory.mkdir()
    (inventory / "inventory.yaml").write_text("resources:\n" + "\n".join(lines) + "\n")
    fleet = Fleet(folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DRAGOMAN_INVENTORY_PATH", str(inventory))
            yield fleet.broker({n: "" if n == "nats" else _endpoint(n) for n in LINKS})
    finally:
        fleet.end()


def _endpoint(link: str) -> str:
    return "http://127.0.0.1:0" if link == "http" else "127.0.0.1:0"


def names(dialect: str) -> list[str]:
    return [f"{dialect}-{n}" for n in range(4)]


def which(job: JobContext) -> list[str]:
    """Say which resources this worker was called for."""
    return sorted(job.resources)


class Owner:
    """A worker that keeps account of what it is told."""

    def __init__(
        self, broker: Broker, dialect: str, name: str, resources: tuple[str, ...] = ()
    ) -> None:
        link = _WORKER_LINK.get(dialect, dialect)
        url = f"{dialect}://{broker.endpoints[link].partition('://')[2]}"
        if dialect == "ncl":
            url += "?heartbeat_interval=1&reconnect_interval=1"
        options: dict[str, Any] = {"concurrency": 1, "own_process_beats": False}
        self.worker = Worker(url, f"net-{dialect}", name=name, resources=resources, **options)
        self.worker.task(which)
        self.owned: set[str] = set()
        self.worker.on_resources(self._changed)

    def _changed(self, gained: list[str], lost: list[str]) -> None:
        assert not self.owned & set(gained)
        assert set(lost) <= self.owned
        self.owned = (self.owned | set(gained)) - set(lost)

    def __enter__(self) -> "Owner":
        self.worker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.worker.stop()


def client(broker: Broker, dialect: str) -> Client:
    return Client(f"{dialect}://{broker.endpoints[dialect].partition('://')[2]}")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_workers_of_every_dialect_own_and_serve_resources(broker: Broker, dialect: str) -> None:
    everything = set(names(dialect))
    with Owner(broker, dialect, f"first-{dialect}") as first:
        until(lambda: first.owned == everything, "the first owns everything", 30)
        for caller in CALLERS:
            with client(broker, caller) as asking:
                job = asking.submit(f"net-{dialect}", "which", target=f"resource:{dialect}-*")
                (result,) = job.result(30).values()
                assert set(result) == everything, caller
                assert set(job.served()) == everything, caller
        with Owner(broker, dialect, f"second-{dialect}") as second:
            # Who owns what is settled by names; with memo01 the broker makes those.
            until(lambda: first.owned | second.owned == everything, "both know their shares", 30)
            until(lambda: not first.owned & second.owned, "nobody owns what another does", 30)
            served = ask_for_all(broker, dialect, everything)
            assert len(set(served.values())) == (2 if second.owned and first.owned else 1)
        until(lambda: first.owned == everything, "the first owns everything again", 30)


def ask_for_all(broker: Broker, dialect: str, everything: set[str]) -> dict[str, str]:
    """Ask both workers at once; each says what it was asked for, and so does the reply."""
    with client(broker, "nfp") as asking:
        target = f"resource:{','.join(sorted(everything))}"
        job = asking.submit(f"net-{dialect}", "which", target=target)
        results: dict[str, Any] = job.result(30)
        served: dict[str, str] = job.served()
    assert served == {name: worker for worker, said in results.items() for name in said}
    assert set(served) == everything
    return served


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_house_reaches_workers_of_every_dialect(broker: Broker, dialect: str) -> None:
    with Owner(broker, dialect, f"managed-{dialect}"), client(broker, "http") as asking:

        def shown() -> list[dict[str, Any]]:
            rows = asking.call("mmi.service.worker", "show_workers", timeout=20)
            return [row for found in rows.values() if isinstance(found, list) for row in found]

        def there() -> list[dict[str, Any]]:
            return [row for row in shown() if row["services"] == [f"net-{dialect}"]]

        (row,) = until(there, "the worker answers for itself", 30, every=0.2)
        assert row["tasks"] == ["which"]
        assert row["name"].startswith("managed-")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_workers_of_every_dialect_announce_resources_of_their_own(
    broker: Broker, dialect: str
) -> None:
    own = f"own, of {dialect}"
    with Owner(broker, dialect, f"proud-{dialect}", (own,)), client(broker, "nfp") as asking:
        target = OnResource((own,))
        job = asking.submit(f"net-{dialect}", "which", target=target)
        assert list(job.result(30).values()) == [[own]]
        assert set(job.served()) == {own}


def test_what_a_caller_was_told_is_still_there_for_whoever_asks(broker: Broker) -> None:
    with Owner(broker, "dcp", "kept") as owner, client(broker, "nfp") as asking:
        until(lambda: len(owner.owned) == 4, "it owns everything", 30)
        job = asking.submit("net-dcp", "which", target="resource:dcp-1")
        assert job.served() == {"dcp-1": "kept"}
        with client(broker, "http") as another:
            found = another.call("mmi.service.broker", "show_job", job.id, timeout=10)
        assert found["resources"] == {"kept": ["dcp-1"]}
