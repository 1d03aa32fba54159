"""Linked brokers with CURVE and a policy: each proves its key, and is a principal at the other."""

import time
from pathlib import Path
from typing import Any

import pytest
from tests.interop.harness import until
from tests.interop.secured import SecuredSite

from dragoman import Client, DragomanError, Worker
from dragoman.model.names import WorkerName
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

MANAGEMENT = "mmi.service.broker"


class SecuredPair:
    """Broker west with a policy, and the keys of a broker east that connects to it."""

    def __init__(self, folder: Path) -> None:
        self.west_site = SecuredSite(folder / "west")
        self.east_site = SecuredSite(folder / "east")
        self.registry = KeyRegistry.open(folder / "registry.json")
        _, self.admin, keys = self.west_site.peer("admin")
        for key in keys:
            self.registry.add(key, "admin", now=time.time(), roles=("admin",))
        self.west = self.west_site.broker(
            "nfp",
            name="west",
            listen={"mesh": "tcp://127.0.0.1:0"},
            security={"enabled": True, "registry": self.registry.path},
        )

    def allow_east(self, *roles: str) -> None:
        key = f"curve:{self.east_site.public}"
        self.registry.add(key, "broker-east", now=time.time(), roles=roles)

    def east(self) -> LocalBroker:
        """Return broker east, to be entered; its NFP listener is plain."""
        dial = {"url": self.west.endpoints["mesh"], "server_key": self.west_site.public}
        own = {"curve": [self.east_site.files["curve"]], "plain": ["nfp"]}
        return LocalBroker("nfp", name="east", credentials=own, mesh={"west": dial})

    def workers_of_west(self) -> dict[str, str]:
        loop = self.west.server.loop
        assert loop is not None
        workers = list(loop.broker.state.registry.workers.values())
        return {w.name: w.principal for w in workers if w.route}


def _add(x: int, y: int) -> int:
    return x + y


def _offering(broker: LocalBroker) -> Worker:
    worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)
    worker.task(_add, name="add")
    return worker


def test_a_broker_with_a_key_and_the_role_of_a_worker_works(tmp_path: Path) -> None:
    pair = SecuredPair(tmp_path)
    pair.allow_east("worker")
    with pair.west, pair.east() as east, _offering(east):
        until(lambda: pair.workers_of_west(), "west has the service of east")
        assert pair.workers_of_west() == {WorkerName("east/math"): "broker-east"}
        with Client(pair.west.url("nfp"), credentials=pair.admin) as client:
            assert client.options(timeout=30).call("math", "add", x=2, y=3) == 5


def test_a_broker_without_the_right_to_offer_is_denied_on_record(tmp_path: Path) -> None:
    pair = SecuredPair(tmp_path)
    pair.allow_east("client")
    with (
        pair.west,
        pair.east() as east,
        _offering(east),
        Client(pair.west.url("nfp"), credentials=pair.admin) as client,
    ):
        until(lambda: _is_linked(client), "east is linked")
        assert pair.workers_of_west() == {}
        with pytest.raises(DragomanError):
            client.options(timeout=1).call("math", "add", x=2, y=3)


def test_a_broker_with_an_unknown_key_sees_that_it_is_refused(tmp_path: Path) -> None:
    pair = SecuredPair(tmp_path)
    with pair.west, pair.east() as east, Client(east.url("nfp")) as client:

        def detail() -> str:
            return str(_neighbours(client)[0]["detail"])

        until(lambda: "refuses this key" in detail(), "east is told that its key is unknown")
        assert pair.workers_of_west() == {}


def _neighbours(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.call(MANAGEMENT, "show_mesh")["neighbours"]
    return rows


def _is_linked(client: Client) -> bool:
    return any(row["state"] == "linked" for row in _neighbours(client))
