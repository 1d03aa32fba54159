"""The built-in services together: recorded without secrets, which only the worker gets."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind
from dragoman.server.builtin_services import with_capitals
from dragoman.server.server import LEDGER_FILE
from dragoman.testing.harness import LocalBroker

SID, MMI, FSS = "sid.service.broker", "mmi.service.broker", "fss.service.broker"
FLEET = {"environment": "FLEET_"}
SECRET = "correct horse battery staple"


def test_names_are_known_in_both_cases() -> None:
    assert with_capitals("a.b") == ("a.b", "A.B")


def everything_on_disk(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_a_secret_reaches_its_worker_and_no_record_log_or_other_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_SECRET", SECRET)
    inventory = {"w*": {"user": "u", "password": "secret:env:FLEET_SECRET"}}
    ask: dict[str, Any] = {"name": "w1", "timeout": 10}
    with LocalBroker("nfp", "zss", data=tmp_path, inventory=inventory, secrets=FLEET) as broker:
        for dialect in ("nfp", "zss"):
            with Client(broker.url(dialect), "w1") as worker:
                found = worker.call(SID, "get_inventory", **ask)
                assert found == {"user": "u", "password": SECRET}
            with Client(broker.url(dialect), "somebody") as other:
                assert other.call(SID, "get_inventory", **ask)["password"] == "***"
                logs = other.call(MMI, "get_logs", timeout=10)
                assert SECRET not in json.dumps(logs)
    assert SECRET.encode() not in everything_on_disk(tmp_path)
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err


@pytest.mark.process
def test_no_client_reads_a_file_of_the_broker_through_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("a file of the broker")
    value = {"a": f"secret:file:{tmp_path}/private", "b": "secret:env:PATH"}
    operation = {"op": "set", "pattern": "w1", "path": "", "value": value}
    allowed = {"folders": [tmp_path], "environment": "PATH"}
    with LocalBroker(secrets=allowed) as broker, Client(broker.url("nfp"), "w1") as client:
        client.call(SID, "change", operations=[operation], timeout=10)
        found = client.call(SID, "get_inventory", name="w1", timeout=10)
        assert found == value


@pytest.mark.process
def test_a_repeated_result_is_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLEET_SECRET", SECRET)
    inventory = {"w1": {"password": "secret:env:FLEET_SECRET"}}
    with LocalBroker(inventory=inventory, secrets=FLEET) as broker:
        with Client(broker.url("nfp"), "w1") as worker:
            job = worker.submit(SID, "get_inventory", name="w1", timeout=10)
            assert job.result(10) == {"password": SECRET}
        with Client(broker.url("nfp"), "w1") as again:
            same = again.submit(SID, "get_inventory", name="w1", job=job.id, timeout=10)
            assert same.result(10) == {"password": "***"}


@pytest.mark.process
def test_a_missing_secret_is_a_fault_that_names_the_reference() -> None:
    inventory = {"w1": {"password": "secret:env:FLEET_NOT_SET"}}
    with (
        LocalBroker(inventory=inventory, secrets=FLEET) as broker,
        Client(broker.url("nfp"), "w1") as worker,
        pytest.raises(Exception, match="cannot read secret:env:FLEET_NOT_SET"),
    ):
        worker.call(SID, "get_inventory", name="w1", timeout=10)


@pytest.mark.process
def test_a_change_is_recorded_and_published_for_the_workers_concerned() -> None:
    from dragoman import Worker

    with LocalBroker() as broker, Client(broker.url("nfp"), "me") as client:
        worker = Worker(broker.url("nfp"), service="math", name="w1", own_process_beats=False)
        worker.task(lambda: 1, name="one")
        with worker:
            assert client.call("math", "one", timeout=10) == 1
            said = client.call(SID, "set", pattern="w*", path="a.b", value=1, timeout=10)
            assert said["workers"] == ["w1"]
        events = client.subscribe("inventory.*", "broker.changed", after=0)
        changed, told = next(events), next(events)
        assert changed.event["detail"] == "inventory version 1, by nfp/me"
        assert (told.topic, told.event) == (
            "inventory.w1",
            {"worker": "w1", "version": 1, "paths": ["w*.a.b"]},
        )


@pytest.mark.parametrize("dialect", ["dcp", "http"])
def test_polled_events_are_in_the_ledger_once(tmp_path: Path, dialect: str) -> None:
    news = "nobody expects this text twice"
    ask: dict[str, Any] = {"after": 0, "topics": "news", "wait": 5, "timeout": 10}
    with (
        LocalBroker("dcp", "http", data=tmp_path, ledger={"seal": False}) as broker,
        Client(broker.url(dialect), "me") as client,
    ):
        client.call(MMI, "publish", topic="news", event=news, timeout=10)
        jobs = [client.submit(MMI, "events", **ask) for _ in range(5)]
        for job in jobs:
            assert [e["event"] for e in job.result(10)["events"]] == [news]
    ledger = SqliteLedger(tmp_path / LEDGER_FILE)
    ended = [r.seq for r in ledger.read(0, 1000) if r.kind == Kind.ENDED and r.task == "events"]
    bodies = [ledger.body(seq) for seq in ended]
    asyncio.run(ledger.close())
    assert len(bodies) == 5
    assert not any(news.encode() in part for body in bodies if body for part in body.parts)


@pytest.mark.process
def test_norfabs_file_service_is_offered_only_with_shared_roots(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    roots = {"roots": {"": str(tmp_path)}}
    with LocalBroker(files=roots) as broker, Client(broker.url("nfp")) as client:
        for service in (FSS, "filesharing"):
            assert client.call(service, "list_files", url="nf://", timeout=10) == ["f"]
    with LocalBroker(nfp={"patience": 0}) as broker, Client(broker.url("nfp")) as client:
        with pytest.raises(Exception, match="shares no files"):
            client.call(FSS, "list_files", url="nf://", timeout=10)
        with pytest.raises(Exception, match="no worker"):
            client.call("filesharing", "list_files", url="nf://", timeout=10)
