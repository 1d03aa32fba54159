"""Several namespaces in one process: by listener, and how they start and stop together."""

import asyncio
from pathlib import Path

import pytest
from tests.security.test_live_security import until

from dragoman import Client, Worker
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.sdk.errors import DragomanError
from dragoman.server.namespaces import Namespaces
from dragoman.server.settings_sources import load
from dragoman.testing.harness import LocalBroker

OWN = {"acme": {"listen": {"nfp": "127.0.0.1:0", "http": "127.0.0.1:0"}}}
MMI = "mmi.service.broker"


def answering(url: str, answer: str) -> Worker:
    worker = Worker(url, service="math", name="w", own_process_beats=False)
    worker.task(lambda: answer, name="whose")
    return worker


def test_without_security_the_listener_tells_the_namespace(tmp_path: Path) -> None:
    with LocalBroker("nfp", data=tmp_path, namespaces=OWN) as broker:
        assert set(broker.endpoints) == {"nfp", "acme/nfp", "acme/http"}
        urls = {name: broker.url("nfp", namespace=name) for name in ("", "acme")}
        with (
            answering(urls[""], "default"),
            answering(urls["acme"], "acme"),
            Client(urls[""]) as own,
            Client(urls["acme"]) as tenant,
            Client(broker.url("http", namespace="acme")) as by_http,
        ):
            job = tenant.options(timeout=20).submit("math", "whose")
            assert job.result(20) == "acme"
            assert own.options(timeout=20).call("math", "whose") == "default"
            assert by_http.options(timeout=20).call("math", "whose") == "acme"
            with pytest.raises((DragomanError, TimeoutError)):
                own.job(job.id, "math").result(1)
            status = own.options(timeout=20).call(MMI, "show_status")
            assert status["namespaces"] == {"acme": "serving"}
            assert "namespaces" not in tenant.options(timeout=20).call(MMI, "show_status")
    assert (tmp_path / "namespaces" / "acme" / LEDGER_FILE).exists()
    assert (tmp_path / "namespaces").stat().st_mode & 0o777 == 0o700


def test_a_tenant_restarts_and_stops_only_its_own_namespace(tmp_path: Path) -> None:
    with LocalBroker("nfp", data=tmp_path, namespaces=OWN) as broker:
        spaces = broker.namespaces
        assert spaces is not None
        with Client(broker.url("nfp", namespace="acme")) as tenant:
            tenant.options(timeout=20).call(MMI, "shutdown", timeout=0.1)
        with Client(broker.url("nfp")) as own:
            status = own.options(timeout=20)
            stopped = {"acme": "stopped"}
            until(lambda: status.call(MMI, "show_status")["namespaces"] == stopped, 20)
        assert not spaces.is_going_down
    assert broker.error is None


def test_a_namespace_that_cannot_start_stops_all_and_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "namespaces" / "acme"
    folder.mkdir(parents=True)
    (folder / LEDGER_FILE).write_bytes(b"no ledger" * 1000)
    broker = LocalBroker("nfp", data=tmp_path, namespaces=OWN)
    with pytest.raises(Exception, match=LEDGER_FILE) as failed, broker:
        pass
    assert failed.value.__notes__ == ["in the namespace acme"]


def test_the_memory_is_shared_out(tmp_path: Path) -> None:
    with LocalBroker("nfp", data=tmp_path, namespaces=OWN) as broker:
        assert broker.namespaces is not None
        loops = [server.loop for server in broker.namespaces.servers.values()]
        queued = {loop.broker.state.limits.queued_memory for loop in loops if loop is not None}
    with LocalBroker("nfp", data=tmp_path) as alone:
        assert alone.server.loop is not None
        whole = alone.server.loop.broker.state.limits.queued_memory
    assert queued == {whole // 2}


def test_a_stop_before_all_serve_stops_all(tmp_path: Path) -> None:
    async def scene() -> list[dict[str, str]]:
        off = {"nfp": "tcp://127.0.0.1:0", "dcp": "off", "zss": "off", "zss_backend": "off"}
        off |= {"memo": "off", "http": "off", "nats": "off", "mdp": "off"}
        spaces = Namespaces(load(data=tmp_path, listen=off, drain=0.1, namespaces=OWN))
        opened: list[dict[str, str]] = []
        running = asyncio.create_task(spaces.run(opened.append))
        await asyncio.sleep(0)
        spaces.stop()
        await asyncio.wait_for(running, 30)
        return opened

    assert asyncio.run(scene()) == []
