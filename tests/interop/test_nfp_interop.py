"""NorFab 0.25.0, unchanged: its client and workers on our broker, with our peers and each other."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, Process, until
from tests.interop.norfab_peers import RealClient, start_worker
from tests.interop.raw_nfp import RawClient, RawWorker, new_id, until_workers

from dragoman import Client, JobFailed
from dragoman.dialects.peer_sides import InputAsked, Progress

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]

#: NorFab's client polls every 10 s. What takes less was announced in time and in order.
PROMPT = 2.0


def our_worker(fleet: Fleet, broker: Broker, name: str, service: str = "probe") -> Process:
    arguments = ("tests.interop.tasks", "--service", service, "--name", name)
    return fleet.dragoman("worker", *arguments, "--url", broker.url())


def results(reply: dict[str, Any]) -> dict[str, Any]:
    """What each worker returned."""
    assert reply["result"] is not None, "NorFab's client gave up"
    return {name: said["result"] for name, said in reply["result"].items()}


# --- who works with whom ----------------------------------------------------------------------


def test_a_real_client_uses_our_worker(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    our_worker(fleet, b, "ours")
    client = RealClient(fleet, b.endpoints["nfp"])
    until_workers(b.endpoints["nfp"], "ours")

    reply = client.ask("run", service="probe", task="add", kwargs={"x": 2, "y": 3})
    assert results(reply) == {"ours": 5}
    assert reply["seconds"] < PROMPT

    talk = client.ask("converse", service="probe", task="steps", answer=None, kwargs={"n": 4})
    assert results(talk) == {"ours": 4}
    told = [e["extras"]["event"]["step"] for e in talk["events"] if "extras" in e]
    assert told == [0, 1, 2, 3]
    assert talk["seconds"] < PROMPT

    asked = client.ask("converse", service="probe", task="confirm", answer="by all means")
    assert results(asked) == {"ours": "by all means"}
    assert asked["seconds"] < PROMPT

    failed = client.ask("run", service="probe", task="broken")["result"]["ours"]
    assert failed["failed"] is True
    assert "broken on purpose" in failed["errors"][0]


def test_our_client_uses_a_real_worker(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    start_worker(fleet, b.endpoints["nfp"], "real")
    until_workers(b.endpoints["nfp"], "real")
    with Client(b.url()) as client:
        begun = time.monotonic()
        assert client.call("probe", "add", x=2, y=3, timeout=20) == 5
        assert client.call("probe", "add", x=2, y=3, target="all", timeout=20) == {"real": 5}

        job = client.submit("probe", "steps", n=3, timeout=20)
        said = [e.event["message"] for e in job.events() if isinstance(e, Progress)]
        assert said == ["starting", "step 0", "step 1", "step 2"]
        assert job.result(10) == 3

        job = client.submit("probe", "confirm", timeout=20)
        for event in job.events():
            if isinstance(event, InputAsked):
                assert event.question == "proceed?"
                job.give_input(event.request, True, event.worker)
        assert job.result(10) is True

        with pytest.raises(JobFailed, match="broken on purpose"):
            client.call("probe", "broken", timeout=20)
        assert time.monotonic() - begun < 5 * PROMPT


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealClient]:
    """A real client, and real workers p1 and p2 of `probe` and q1 of `other`."""
    fleet = Fleet(tmp_path_factory.mktemp("crowd"))
    try:
        endpoint = fleet.broker().endpoints["nfp"]
        start_worker(fleet, endpoint, "p1")
        start_worker(fleet, endpoint, "p2")
        start_worker(fleet, endpoint, "q1", "other")
        client = RealClient(fleet, endpoint)
        until_workers(endpoint, "p1", "p2", "q1")
        yield client
    finally:
        fleet.end()


def test_every_form_of_target_reaches_the_right_real_workers(crowd: RealClient) -> None:
    def ask(service: str, workers: Any) -> set[str]:
        reply = crowd.ask("run", service=service, task="add", kwargs={"x": 1}, workers=workers)
        assert reply["seconds"] < PROMPT
        assert set(results(reply).values()) == {1}
        return set(results(reply))

    assert ask("probe", "all") == {"p1", "p2"}
    assert ask("probe", "any") < {"p1", "p2"}
    assert ask("probe", "p2") == {"p2"}
    assert ask("probe", ["p1", "p2"]) == {"p1", "p2"}
    assert ask("probe", ["p1", "nobody"]) == {"p1"}
    assert ask("probe", "q1") == {"q1"}
    assert ask("all", "all") == {"p1", "p2", "q1"}
    one_each = ask("all", "any")
    assert len(one_each) == 2
    assert "q1" in one_each


def test_real_events_come_in_order_and_input_reaches_the_job(crowd: RealClient) -> None:
    for _ in range(5):
        talk = crowd.ask("converse", service="probe", task="steps", answer=None, workers="p1",
                         kwargs={"n": 20})  # fmt: skip
        told = [e["message"] for e in talk["events"]]
        assert told == ["starting", *[f"step {i}" for i in range(20)], "completed"]
        assert talk["seconds"] < PROMPT
    for answer in (True, False, "ü"):
        talk = crowd.ask("converse", service="probe", task="confirm", answer=answer, workers="any")
        assert [*results(talk).values()] == [answer]
        assert [e["event_type"] for e in talk["events"]] == [
            *("progress", "input_request", "input_response", "result_ready")
        ]
        assert talk["seconds"] < PROMPT


def test_a_hundred_real_jobs_at_once_all_complete(crowd: RealClient) -> None:
    found = crowd.ask("burst", service="probe", task="add", count=100, workers="any",
                      kwargs={"x": 7}, timeout=45)  # fmt: skip
    assert [said["result"] for each in found for said in each.values()] == [7] * 100


# --- files, management, inventory -------------------------------------------------------------


def test_a_file_of_5_mb_comes_whole_from_the_real_file_worker(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    content = os.urandom(5_000_000)
    (shared / "big.bin").write_bytes(content)
    b = broker(
        settings=f"""
[inventory."filesharing-*"]
service = "filesharing"
base_dir = "{shared}"
"""
    )
    endpoint = b.endpoints["nfp"]
    start_worker(fleet, endpoint, "filesharing-worker-1", kind="files")
    client = RealClient(fleet, endpoint)
    until_workers(endpoint, "filesharing-worker-1")
    found = client.ask("fetch", url="nf://big.bin", chunk_size=256_000)
    assert found["status"] == "200", found
    fetched = Path(found["content"]).read_bytes()
    assert hashlib.md5(fetched).hexdigest() == hashlib.md5(content).hexdigest()
    assert found["seconds"] < 5


def test_management_and_inventory_satisfy_the_real_client(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker(
        settings="""
[inventory."*"]
groups = ["everybody"]
[inventory."probe-*"]
groups = ["probes"]
level = 3
"""
    )
    endpoint = b.endpoints["nfp"]
    start_worker(fleet, endpoint, "probe-1")
    client = RealClient(fleet, endpoint)
    until_workers(endpoint, "probe-1")
    stats = client.ask("validated_stats")
    assert stats["worker_count"] == 1
    assert stats["workers"][0]["name"] == "probe-1"
    rows = client.ask("mmi", service="mmi.service.broker", task="show_workers")["results"]
    assert [(r["name"], r["service"], r["status"]) for r in rows] == [("probe-1", "probe", "alive")]
    found = client.ask(
        "mmi", service="sid.service.broker", task="get_inventory", kwargs={"name": "probe-1"}
    )
    assert found["results"] == {"groups": ["everybody", "probes"], "level": 3}


# --- trouble ----------------------------------------------------------------------------------


def test_a_real_worker_is_back_within_one_keepalive_of_a_restart(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    start_worker(fleet, endpoint, "steady")
    client = RealClient(fleet, endpoint)
    until_workers(endpoint, "steady")
    for take_down in (b.kill, b.stop):
        take_down()
        b.start()
        begun = time.monotonic()
        until_workers(endpoint, "steady")
        # One keepalive of 2.5 s, and what ZeroMQ takes to connect again.
        assert time.monotonic() - begun < 3.5
        reply = client.ask("run", service="probe", task="add", kwargs={"x": 1, "y": 1})
        assert results(reply) == {"steady": 2}


@pytest.mark.timeout(90)
def test_a_real_job_survives_its_worker_standing_still_for_21_s(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    frozen = start_worker(fleet, endpoint, "frozen")
    start_worker(fleet, endpoint, "idle", "idle")
    client = RealClient(fleet, endpoint)
    until_workers(endpoint, "frozen", "idle")
    client.begin("run", service="probe", task="slow", kwargs={"seconds": 3}, timeout=60)
    with RawClient(endpoint, b"looking") as look:
        until(lambda: look.jobs("running"), "the job runs")
        frozen.freeze()
        begun = time.monotonic()
        # The broker gives the worker up meanwhile, which is what makes its return a test.
        until(lambda: _status(look, "frozen") != "alive", "the worker is given up", 20, every=0.1)
        time.sleep(max(0.0, begun + 21 - time.monotonic()))
        frozen.thaw()
    reply = client.answer()
    assert results(reply) == {"frozen": 3}
    assert reply["seconds"] < 40
    # Meanwhile the idle one had its beats.
    (log,) = (fleet.folder / "state-idle").rglob("worker-idle.jsonl")
    assert "keepalive expired" not in log.read_text()


def _status(client: RawClient, worker: str) -> str:
    status: dict[str, str] = {r["name"]: r["status"] for r in client.manage("list_workers")}
    return status.get(worker, "")


def test_a_real_client_that_comes_before_its_worker_is_served_all_the_same(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    client = RealClient(fleet, endpoint)
    client.begin("run", service="probe", task="add", kwargs={"x": 2, "y": 2})
    with RawClient(endpoint, b"looking") as look:
        until(lambda: look.jobs("queued"), "the job is queued")
    start_worker(fleet, endpoint, "late")
    assert results(client.answer()) == {"late": 4}


def test_without_patience_a_real_client_is_refused_at_once(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker(settings="[nfp]\npatience = 0\n")
    client = RealClient(fleet, b.endpoints["nfp"])
    uuid = client.ask("submit", service="nothing", task="add")
    begun = time.monotonic()
    assert client.ask("result", uuid=uuid) is None
    assert time.monotonic() - begun < PROMPT
    state = client.ask("state", uuid=uuid)
    assert state["status"] == "FAILED"
    assert "nothing" in str(state["errors"])


POISON = [b"", b"not json", b"[1, 2]", b'"text"', b"null", b"{", b"\xff\xfe", b'{"task": 5}',
          b"7", b'{"kwargs": {}}', b'{"task": "add", "kwargs": []}',
          b'{"task": "add", "args": {}}', b"[" * 100_000]  # fmt: skip


def test_poison_never_reaches_a_real_worker(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    start_worker(fleet, endpoint, "victim")
    until_workers(endpoint, "victim")
    with RawClient(endpoint, b"poisoner") as raw:
        for body in POISON:
            uuid = raw.post(b"probe", body=body)
            status, said = raw.reply(uuid)
            assert status == "400", (body[:40], said)
            assert said["error"]
        for command in (b"0x06", b"0x07", b"0x10"):
            raw.ask(command, b"probe", b"any", b"\xff\xfe", b"{}")
            assert raw.get()[4] == b"400"
        raw.ask(b"0x04", b"\xff", b"any", new_id(), b"{}")
        assert raw.get()[4] == b"400"
    with Client(b.url()) as client:
        assert client.call("probe", "add", x=1, y=2, timeout=20) == 3


@pytest.mark.timeout(270)
def test_6000_posts_to_a_real_worker_that_stands_still_all_complete(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    worker = start_worker(fleet, endpoint, "stalled")
    until_workers(endpoint, "stalled")
    worker.freeze()
    with RawClient(endpoint, b"flooder") as raw:
        count = 6000
        asked = {raw.post(b"probe") for _ in range(count)}
        dispatched: set[bytes] = set()
        refused: set[bytes] = set()
        finished: set[bytes] = set()
        thawed = False
        deadline = time.monotonic() + 240
        while len(finished | refused) < count and time.monotonic() < deadline:
            found = raw.get_or_none(1.0)
            if found is None:
                continue
            command, uuid, status = found[1], found[3], found[4]
            if command == b"0x08" and b"result_ready" in found[5]:
                raw.ask(b"0x06", b"probe", b"any", uuid)
            elif status == b"202":
                dispatched.add(uuid)
            elif status == b"200":
                finished.add(uuid)
            elif status[:1] in b"45":
                refused.add(uuid)
            if not thawed and dispatched | refused:
                worker.thaw()
                thawed = True
    assert not refused
    assert finished == asked


# --- the same from hand-made workers, where the real ones cannot show it -----------------------


def test_a_lost_workers_job_goes_to_another_and_bears_the_announced_name(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker(settings="[nfp]\nbeat_every = 0.2\nmissed_allowed = 3\n")
    endpoint = b.endpoints["nfp"]
    client = RealClient(fleet, endpoint)
    with RawWorker(endpoint, b"mortal", b"probe") as mortal:
        mortal.ready()
        client.begin("run", service="probe", task="add", workers="any", kwargs={"x": 1, "y": 2})
        _, first, _ = mortal.job()
        start_worker(fleet, endpoint, "heir")
        until_workers(endpoint, "heir")
        begun = time.monotonic()
        reply = client.answer()
    assert results(reply) == {"mortal": 3}
    assert time.monotonic() - begun < PROMPT
    assert reply["result"]["mortal"]["juuid"] == first.decode()
