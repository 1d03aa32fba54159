"""The place of a broker, as the doctor sees it."""

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.doctor import broker_checks as places
from dragoman.cli.doctor.broker_checks import BrokerChecks
from dragoman.cli.doctor.check_results import BAD, OK, WARNING
from dragoman.server.settings import BrokerSettings, Listen
from dragoman.server.settings_sources import load
from dragoman.testing.fabric import free_port
from dragoman.testing.harness import LocalBroker


def settings(folder: Path, **listen: str) -> BrokerSettings:
    said: dict[str, Any] = {name: listen.get(name, "off") for name in Listen.model_fields}
    return load(data=folder / "data", listen=said)


def test_a_free_port_is_well_and_a_taken_one_is_bad(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as in_use:
        listen = {
            "dcp": f"tcp://127.0.0.1:{in_use.getsockname()[1]}",
            "zss": f"tcp://127.0.0.1:{free_port()}",
            "nats": "nats://far:4222",
            "memo": "tcp://127.0.0.1:0",
        }
        results = {f.what: f.verdict for f in BrokerChecks(settings(tmp_path, **listen)).ports()}
    assert results.pop("port dcp") == BAD
    assert set(results.values()) == {OK}
    assert len(results) == len(Listen.model_fields) - 1


@pytest.mark.process
def test_ports_that_a_broker_has_are_well(tmp_path: Path) -> None:
    with LocalBroker("nfp", "dcp") as broker:
        listen = {name: broker.endpoints[name] for name in ("nfp", "dcp")}
        results = list(BrokerChecks(settings(tmp_path, **listen)).ports())
    assert {f.verdict for f in results} == {OK}
    assert sum("a broker with" in f.text for f in results) == 2


def test_a_disk_is_written_to_and_left_as_it_was(tmp_path: Path) -> None:
    results = {f.what: f for f in BrokerChecks(settings(tmp_path)).disk()}
    assert set(results) == {"data folder", "disk space", "fsync"}
    assert "median " in results["fsync"].text
    assert list(tmp_path.iterdir()) == []


def test_a_slow_disk_and_a_full_one_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_FAST", 0.0)
    monkeypatch.setattr(places, "_LITTLE", 2**80)
    monkeypatch.setattr(places, "_TOO_LITTLE", 2**80)
    results = {f.what: f.verdict for f in BrokerChecks(settings(tmp_path)).disk()}
    assert (results["fsync"], results["disk space"]) == (WARNING, BAD)


def test_a_folder_that_cannot_be_written_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (results,) = BrokerChecks(settings(tmp_path)).disk()
    assert results.verdict == BAD


def test_a_ledger_of_tomorrow_means_that_the_clock_went_back(tmp_path: Path) -> None:
    broker = BrokerChecks(settings(tmp_path))
    assert next(broker.ledger()).text.startswith("none yet")
    file = tmp_path / "data" / "ledger.sqlite"
    file.parent.mkdir()
    file.write_bytes(b"x")
    assert next(broker.ledger()).verdict == OK
    os.utime(file, (time.time() + 3600, time.time() + 3600))
    assert next(broker.ledger()).verdict == BAD


def test_the_nodes_of_a_cluster_are_looked_for(tmp_path: Path) -> None:
    def check(**cluster: Any) -> list[tuple[str, str]]:
        found = load(data=tmp_path, cluster={"name": "c", "node": "a", **cluster})
        return [(f.verdict, f.text) for f in BrokerChecks(found).cluster()]

    assert list(BrokerChecks(settings(tmp_path)).cluster()) == []
    with socket.create_server(("127.0.0.1", 0)) as other:
        places = [f"127.0.0.1:{other.getsockname()[1]}", f"127.0.0.1:{free_port()}"]
        token, near, away = check(join=places)
    assert token[0] == BAD
    assert "cluster token" in token[1]
    assert near == (OK, f"{places[0]} is reachable")
    assert away[0] == WARNING
    (tmp_path / "cluster.token").write_text("0123456789")
    assert "three or five" in check(join=["127.0.0.1:1"])[0][1]
    assert "sync_interval" in check(nats="nats://h:4222")[0][1]


def test_namespaces_are_listed_and_a_mistake_in_one_is_bad(tmp_path: Path) -> None:
    own = {"acme": {"listen": {"nfp": "127.0.0.1:0"}}}
    (found,) = BrokerChecks(load(data=tmp_path, namespaces=own)).namespaces()
    assert (found.what, found.verdict) == ("namespace acme", OK)
    assert "nfp tcp://127.0.0.1:0" in found.text
    (found,) = BrokerChecks(load(data=tmp_path, namespaces={"acme": {}})).namespaces()
    assert found.verdict == BAD
    assert list(BrokerChecks(load(data=tmp_path)).namespaces()) == []
