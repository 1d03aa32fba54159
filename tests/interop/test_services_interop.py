"""Built-in services, used by NorFab's own client and workers, unchanged."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.canary_watch import Canary
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, until
from tests.interop.norfab_peers import RealClient, start_worker
from tests.interop.raw_nfp import until_workers

from dragoman import Client

pytestmark = pytest.mark.interop

MMI, SID = "mmi.service.broker", "sid.service.broker"


def ask(client: RealClient, service: str, task: str, **kwargs: Any) -> Any:
    found = client.ask("mmi", service=service, task=task, kwargs=kwargs)
    assert found["status"] == "200", found
    return found["results"]


def norfab_folder(folder: Path) -> Path:
    """An inventory as NorFab's users have it."""
    (folder / "nornir").mkdir(parents=True)
    (folder / "inventory.yaml").write_text(
        """
broker:
  endpoint: "tcp://127.0.0.1:5555"
  shared_key: "a very secret key"
workers:
  probe-*:
    - nornir/common.yaml
  probe-1:
    - nornir/probe-1.yaml
topology:
  broker: True
  workers: [probe-1]
"""
    )
    (folder / "nornir" / "common.yaml").write_text("service: probe\nuser: {{ env.HOME }}\n")
    (folder / "nornir" / "probe-1.yaml").write_text("hosts: {a: {port: 22}}\n")
    return folder


def test_management_satisfies_the_real_client(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    start_worker(fleet, endpoint, "probe-1")
    client = RealClient(fleet, endpoint)
    until_workers(endpoint, "probe-1")
    stats = client.ask("validated_stats")
    assert [w["name"] for w in stats["workers"]] == ["probe-1"]
    assert ask(client, MMI, "get_status")["status"] == "active"
    assert ask(client, MMI, "show_broker")["workers count"] == 1
    assert ask(client, MMI, "show_broker_version")["dragoman"]
    assert ask(client, MMI, "show_services") == [
        {"name": "probe", "workers": 1, "queued": 0, "running": 0}
    ]
    assert {"real-client"} <= {
        c["name"].partition("/")[2] for c in ask(client, MMI, "show_clients")
    }
    assert "listening" in [line["message"] for line in ask(client, MMI, "get_logs", last=50)]
    assert client.ask("mmi", service=MMI, task="fly")["status"] == "400"


def test_a_real_worker_survives_disconnect_and_restart(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    start_worker(fleet, endpoint, "probe-1")
    client = RealClient(fleet, endpoint)
    until_workers(endpoint, "probe-1")

    def add() -> Any:
        found = client.ask("run", service="probe", task="add", kwargs={"x": 1, "y": 2})
        return found["result"]["probe-1"]["result"]

    assert add() == 3
    assert ask(client, MMI, "disconnect", worker="probe-1")["workers"] == ["probe-1"]
    assert add() == 3
    assert ask(client, MMI, "restart", timeout=1) == {"status": "restarting"}
    # What is sent into the gap between two sockets is lost, and NorFab's client does not repeat.
    until(lambda: b.log.count('"link": "nfp"') == 2, "the broker listens again")
    assert add() == 3
    assert b.is_running
    assert ask(client, MMI, "shutdown", timeout=1) == {"status": "shutting down"}
    assert b.wait() == 0


def test_a_norfab_inventory_folder_works_as_it_is(
    broker: StartBroker, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = norfab_folder(tmp_path / "fabric")
    monkeypatch.setenv("DRAGOMAN_INVENTORY_PATH", str(folder))
    b = broker()
    client = RealClient(fleet, b.endpoints["nfp"])
    found = ask(client, SID, "get_inventory", name="probe-1")
    assert found == {"service": "probe", "user": os.environ["HOME"], "hosts": {"a": {"port": 22}}}
    assert ask(client, SID, "get_inventory", name="stranger") is None
    shown = ask(client, MMI, "show_broker_inventory")
    assert shown["broker"] == {"endpoint": "tcp://127.0.0.1:5555", "shared_key": "***"}
    assert ask(client, SID, "set", pattern="probe-*", path="level", value=3)["version"] == 1
    assert ask(client, SID, "get_inventory", name="probe-1")["level"] == 3
    (folder / "nornir" / "probe-1.yaml").write_text("hosts: {a: {\n")
    assert ask(client, SID, "get_inventory", name="probe-1")["hosts"] == {"a": {"port": 22}}
    assert "probe-1.yaml, line 2" in ask(client, SID, "show")["trouble"]


def sharing(broker: StartBroker, folder: Path) -> Broker:
    folder.mkdir()
    return broker(settings=f'[files.roots]\n"" = "{folder}"\n')


def test_the_real_client_fetches_from_our_file_service(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    b = sharing(broker, tmp_path / "shared")
    content = os.urandom(5_000_000)
    (tmp_path / "shared" / "big.bin").write_bytes(content)
    (tmp_path / "shared" / "small.txt").write_text("small")
    client = RealClient(fleet, b.endpoints["nfp"])
    found = client.ask("fetch", url="nf://big.bin", chunk_size=256_000)
    assert found["status"] == "200", found
    fetched = Path(found["content"]).read_bytes()
    assert hashlib.md5(fetched).hexdigest() == hashlib.md5(content).hexdigest()
    assert found["seconds"] < 5
    assert client.ask("fetch", url="nf://small.txt", read=True)["content"] == "small"
    assert client.ask("fetch", url="nf://none.txt")["status"] == "404"
    assert client.ask("fetch", url="nf://../broker-1/dragoman.toml")["status"] != "200"
    run = client.ask("run", service="filesharing", task="walk", kwargs={"url": "nf://"})
    assert run["result"]["files"]["result"] == ["nf://big.bin", "nf://small.txt"]


def test_a_real_file_worker_and_ours_serve_side_by_side(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "t.txt").write_text("theirs")
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "o.txt").write_text("ours")
    b = broker(
        settings=f"""
[files.roots]
"" = "{ours}"
[inventory."filesharing-*"]
service = "filesharing"
base_dir = "{theirs}"
"""
    )
    endpoint = b.endpoints["nfp"]
    start_worker(fleet, endpoint, "filesharing-worker-1", kind="files")
    client = RealClient(fleet, endpoint)
    until_workers(endpoint, "filesharing-worker-1")
    assert client.ask("fetch", url="nf://t.txt", read=True)["content"] == "theirs"
    assert client.ask("fetch", url="nf://o.txt", read=True)["content"] == "ours"


def test_a_real_workers_secrets_reach_it_and_not_others(
    broker: StartBroker, fleet: Fleet, tmp_path: Path, canary: Canary
) -> None:
    secret = canary("inventory secret")
    (tmp_path / "probe.key").write_text(f"{secret}\n")
    b = broker(
        settings=f"""
[secrets]
folders = ["{tmp_path}"]
[inventory."probe-1"]
password = "secret:file:{tmp_path}/probe.key"
"""
    )
    own = RealClient(fleet, b.endpoints["nfp"], "probe-1-NFPClient")
    assert ask(own, SID, "get_inventory", name="probe-1") == {"password": secret}
    other = RealClient(fleet, b.endpoints["nfp"], "other")
    assert ask(other, SID, "get_inventory", name="probe-1") == {"password": "***"}
    with Client(b.url()) as client:
        jobs = client.call(MMI, "show_totals", timeout=10)["succeeded"]
    assert jobs == 2
    b.stop()
    ledger = b"".join(p.read_bytes() for p in b.data.glob("ledger.sqlite*"))
    assert secret.encode() not in ledger
