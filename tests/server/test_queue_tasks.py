"""Schedules, dead letters, pauses and drains on a real broker, over its management."""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client, DeadLetters, Flow, JobFailed, Retry, Schedules, Worker
from dragoman.testing.harness import LocalBroker

NIGHTLY = {"nightly": {"service": "reports", "task": "build", "cron": "0 3 * * *"}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data: Path) -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http", data=data, schedules=NIGHTLY) as broker:
        yield broker


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    with Client(broker.url("nfp")) as client:
        yield client


def get(broker: LocalBroker, what: str) -> list[dict[str, Any]]:
    """Read a listing over HTTP."""
    with urllib.request.urlopen(f"{broker.url('http')}/v1/{what}") as response:
        found: list[dict[str, Any]] = json.load(response)[what]
        return found


def worker_of(broker: LocalBroker, name: str = "mail-1") -> Worker:
    worker = Worker(broker.url("nfp"), "mail", name=name, own_process_beats=False)
    worker.is_broken = True  # type: ignore[attr-defined]

    @worker.task
    def send(to: str) -> str:
        if worker.is_broken:  # type: ignore[attr-defined]
            raise ConnectionError("no mail server")
        return f"sent to {to}"

    return worker


def test_a_schedule_of_the_settings_is_there_with_its_next_tick(client: Client) -> None:
    (row,) = Schedules(client).list()
    assert (row["name"], row["source"], row["last_tick"]) == ("nightly", "settings", 0)
    assert time.gmtime(row["next_tick"])[3:6] == (3, 0, 0)


def test_a_schedule_makes_jobs(broker: LocalBroker, client: Client) -> None:
    worker = worker_of(broker)
    worker.is_broken = False  # type: ignore[attr-defined]
    with worker:
        Schedules(client).add("often", "mail", "send", args=["ada"], every=1)
        for event in client.subscribe("broker.ended", after=0):
            if event.event["job"].startswith("schedule-often-"):
                break
        row = next(row for row in Schedules(client).list() if row["name"] == "often")
        assert row["last_job"] == f"schedule-often-{row['last_tick']}"
        assert client.job(Schedules(client).run("often")).result(20) == "sent to ada"


def test_a_schedule_is_paused_resumed_and_removed(broker: LocalBroker, client: Client) -> None:
    schedules = Schedules(client)
    schedules.pause("nightly")
    assert schedules.list()[0]["next_tick"] == 0
    schedules.resume("nightly")
    assert schedules.list()[0]["next_tick"] > 0
    found = get(broker, "schedules")
    assert [row["name"] for row in found] == ["nightly"]
    schedules.remove("nightly")
    assert schedules.list() == []
    with pytest.raises(JobFailed, match="there is no schedule 'nightly'"):
        schedules.pause("nightly")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 3 * * *", "zone": "Mars/Base"}, "unknown time zone"),
        ({}, "either cron or every"),
        ({"every": 5, "colour": "blue"}, "no 'colour'"),
        ({"every": 5, "options": {"retrys": 1}}, "unknown option 'retrys'"),
        ({"every": 10.0}, "every must be a whole number"),
    ],
)
def test_a_schedule_that_cannot_be_meant_is_refused(
    client: Client, members: dict[str, object], message: str
) -> None:
    with pytest.raises(JobFailed, match=message):
        Schedules(client).add("odd", "mail", "send", **members)


def test_a_dead_letter_is_listed_shown_and_retried(broker: LocalBroker, client: Client) -> None:
    letters, worker = DeadLetters(client), worker_of(broker)
    with worker:
        job = client.options(retries=Retry(1, backoff=0.0)).submit("mail", "send", "ada")
        with pytest.raises(JobFailed):
            job.result(20)
        assert [row["job"] for row in letters.list(service="mail", fault="task_failed")] == [job.id]
        assert letters.list(service="other") == letters.list(older=60.0) == []
        assert len(get(broker, "dead")) == 1
        history = [row["kind"] for row in letters.show(job.id)["history"]]
        assert history == ["submitted", "dispatched", "requeued", "dispatched", "ended"]
        worker.is_broken = False  # type: ignore[attr-defined]
        assert client.job(letters.retry(job.id)).result(20) == "sent to ada"
        assert letters.list() == []
        with pytest.raises(JobFailed, match="is no dead letter"):
            letters.drop(job.id)


def test_a_paused_service_waits_over_a_restart_of_the_broker(data: Path) -> None:
    with LocalBroker("nfp", data=data) as broker, Client(broker.url("nfp")) as client:
        Flow(client).pause("mail", "maintenance")
        job = client.options(timeout=60).submit("mail", "send", "ada").id
        with pytest.raises(JobFailed, match="built in"):
            Flow(client).pause("mmi.service.broker")
    with LocalBroker("nfp", data=data) as broker, Client(broker.url("nfp")) as client:
        worker = worker_of(broker)
        worker.is_broken = False  # type: ignore[attr-defined]
        with worker:
            found = client.options(timeout=20).call("mmi.service.broker", "why", job)
            assert found["reason"] == "paused"
            assert "maintenance" in found["words"]
            Flow(client).resume("mail")
            assert client.job(job).result(20) == "sent to ada"


def test_a_drained_worker_stays_drained_until_it_is_undrained(data: Path) -> None:
    with LocalBroker("nfp", data=data) as broker, Client(broker.url("nfp")) as client:
        flow, worker = Flow(client), worker_of(broker)
        worker.is_broken = False  # type: ignore[attr-defined]
        with worker:
            flow.drain(worker.name, "new disk")
            flow.drain(worker.name)
            job = client.options(timeout=60).submit("mail", "send", "ada").id
            found = client.options(timeout=20).call("mmi.service.broker", "why", job)
            assert (found["reason"], found["worker"]) == ("drained", worker.name)
            with pytest.raises(JobFailed, match="there is no worker 'nobody'"):
                flow.drain("nobody")
            with pytest.raises(JobFailed, match="is not drained"):
                flow.undrain("nobody")
        name = worker.name
    with LocalBroker("nfp", data=data) as broker, Client(broker.url("nfp")) as client:
        ask = client.options(timeout=20)
        (row,) = ask.call("mmi.service.broker", "list_drained")
        assert row == {"worker": name, "reason": "new disk", "holding": 0, "is_here": False}
        worker = worker_of(broker, name)
        worker.is_broken = False  # type: ignore[attr-defined]
        with worker:
            (shown,) = ask.call("mmi.service.broker", "list_workers")
            assert (shown["name"], shown["status"]) == (name, "drained")
            Flow(client).undrain(name)
            assert client.job(job).result(20) == "sent to ada"
