"""Power cuts: the broker is killed again and again under load, and nothing acknowledged is lost.

The clients keep their own lists of what they were promised and told; the workers write down every
execution. At the end both are compared with each other and with the ledger. `DRAGOMAN_CRASH_ROUNDS`
sets how often the broker is killed, `DRAGOMAN_CRASH_SEED` when.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, Process, until
from tests.interop.raw_nfp import CLIENT, DELETE, GET, OPEN, POST, RESPONSE, Raw, new_id, post_body

from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind, Record

pytestmark = pytest.mark.crash

ROUNDS = int(os.environ.get("DRAGOMAN_CRASH_ROUNDS", "20"))
SEED = int(os.environ.get("DRAGOMAN_CRASH_SEED", "20261115"))
CLIENTS = 4
WINDOW = 25
#: Beats are frequent, so that workers are back soon; leases are long, so that none is ever lost.
SETTINGS = """
[nfp]
beat_every = 0.2
missed_allowed = 200
[limits]
recovery_grace = 60
[ledger]
seal = false
"""
_BODY = post_body("noted", timeout=600)


class Promise:
    """What a client knows about one of its jobs."""

    def __init__(self) -> None:
        self.is_acknowledged = False
        self.answers: list[tuple[bytes, bytes]] = []
        self.said_at = time.monotonic()


class LoadClient(threading.Thread):
    """Keeps some jobs open, asks again for what is late, and writes everything down."""

    def __init__(self, endpoint: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.endpoint = endpoint
        self.jobs: dict[bytes, Promise] = {}
        self.open: set[bytes] = set()
        self.is_loading = True
        self.is_stopped = False
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with Raw(self.endpoint, self.name.encode(), zmq.Context.instance()) as self.raw:
                self._introduce()
                while not self.is_stopped:
                    self._turn()
        except BaseException as error:
            self.error = error

    def _introduce(self) -> None:
        self.raw.send(CLIENT, OPEN, b'{"agent":"crash","push":true}')

    def _turn(self) -> None:
        while self.is_loading and len(self.open) < WINDOW:
            uuid = new_id()
            self.jobs[uuid] = Promise()
            self.open.add(uuid)
            self.raw.send(CLIENT, POST, b"crash", b"any", uuid, _BODY)
        if (frames := self.raw.get_or_none(0.05)) is not None:
            self._take(frames)
        now = time.monotonic()
        for uuid in [u for u in self.open if now - self.jobs[u].said_at > 0.7]:
            self._say_again(uuid, now)

    def _say_again(self, uuid: bytes, now: float) -> None:
        """What was acknowledged is asked for; what was not is submitted again, as the same job."""
        promise = self.jobs[uuid]
        promise.said_at = now
        self._introduce()
        if promise.is_acknowledged:
            self.raw.send(CLIENT, GET, b"crash", b"any", uuid, b"")
        else:
            self.raw.send(CLIENT, POST, b"crash", b"any", uuid, _BODY)

    def _take(self, frames: list[bytes]) -> None:
        if frames[1] != RESPONSE:
            return
        uuid, status, body = frames[3:6]
        promise = self.jobs[uuid]
        if status == b"202":
            promise.is_acknowledged = True
        elif status == b"200" or status[:1] in (b"4", b"5"):
            promise.answers.append((status, body))
            self.open.discard(uuid)


def start_worker(fleet: Fleet, broker: Broker, name: str, log: Path) -> Process:
    arguments = ("tests.interop.tasks", "--service", "crash", "--name", name)
    env = {"TASKS_LOG": str(log)}
    return fleet.dragoman("worker", *arguments, "--url", broker.url(), env=env)


def executions(log: Path) -> Counter[bytes]:
    """How often each job was run."""
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(line.split()[1].encode() for line in lines if line.startswith("ran "))


def records(broker: Broker) -> Iterator[Record]:
    """The ledger of a broker that is down."""
    assert not broker.is_running
    ledger = SqliteLedger(broker.ledger_file)
    yield from ledger.read(0)


def audit(found: list[Record]) -> dict[str, str]:
    """Check the ledger by itself; return the final state of every job that has one."""
    assert [r.seq for r in found] == list(range(1, len(found) + 1))
    ends = Counter(r.job for r in found if r.kind == Kind.ENDED)
    assert not [job for job, count in ends.items() if count > 1], "a job ended twice"
    submitted = [r.job for r in found if r.kind == Kind.SUBMITTED]
    assert len(submitted) == len(set(submitted)), "a job was taken in twice"
    assert set(ends) <= set(submitted)
    return {r.job: r.state for r in found if r.kind == Kind.ENDED}


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_nothing_acknowledged_is_lost_and_nothing_runs_twice_however_often_the_broker_dies(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    b = broker(settings=SETTINGS)
    log = tmp_path / "executions.log"
    for name in ("w1", "w2", "w3"):
        start_worker(fleet, b, name, log)
    clients = [LoadClient(b.endpoints["nfp"], f"c{i}") for i in range(CLIENTS)]
    for client in clients:
        client.start()
    until(lambda: len(executions(log)) > 50, "work is done")

    for _ in range(ROUNDS):
        time.sleep(dice.expovariate(1 / 0.4))
        b.kill()
        b.start()

    for client in clients:
        client.is_loading = False
    until(lambda: not any(c.open for c in clients), "every job has its answer", 60)
    for client in clients:
        client.is_stopped = True
        client.join(5)
        assert client.error is None
    b.stop()

    jobs = {uuid: promise for client in clients for uuid, promise in client.jobs.items()}
    ends = audit(list(records(b)))
    ran = executions(log)
    print(f"seed {SEED}: {ROUNDS} kills, {len(jobs)} jobs, {sum(ran.values())} executions")
    for uuid, promise in jobs.items():
        assert promise.answers, f"{uuid!r} was never answered"
        assert {status for status, _ in promise.answers} == {b"200"}, promise.answers
        bodies = {body for _, body in promise.answers}
        assert len(bodies) == 1, f"{uuid!r} was answered in two ways: {bodies}"
        assert json.loads(bodies.pop())
        assert ends[uuid.decode()] == "succeeded"
    twice = [uuid for uuid, count in ran.items() if count > 1]
    assert not twice, f"run twice though no worker was lost: {twice}"
    assert set(ran) >= set(jobs)


@pytest.mark.timeout(120)
def test_a_worker_that_dies_with_the_broker_loses_no_job(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    """Both die at once, several times: jobs may run twice then, and each still ends once."""
    b = broker(settings=SETTINGS.replace("60", "1").replace("false", "true"))
    log = tmp_path / "executions.log"
    worker = start_worker(fleet, b, "w0", log)
    client = LoadClient(b.endpoints["nfp"], "c")
    client.start()
    for i in range(3):
        before = len(executions(log))
        until(lambda before=before: len(executions(log)) > before + 30, "work is done")  # type: ignore[misc]
        worker.kill()
        b.kill()
        b.start()
        worker = start_worker(fleet, b, f"w{i + 1}", log)
    client.is_loading = False
    until(lambda: not client.open, "every job has its answer", 60)
    client.is_stopped = True
    client.join(5)
    b.stop()
    ends = audit(list(records(b)))
    for uuid, promise in client.jobs.items():
        assert {status for status, _ in promise.answers} == {b"200"}
        assert ends[uuid.decode()] == "succeeded"


@pytest.mark.timeout(60)
def test_a_cancel_that_was_confirmed_stays_confirmed_after_a_crash(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    b = broker(settings=SETTINGS)
    log = tmp_path / "executions.log"
    with Raw(b.endpoints["nfp"], b"c", zmq.Context.instance()) as raw:
        asked = [new_id() for _ in range(50)]
        raw.send(CLIENT, OPEN, b'{"push":true}')
        for uuid in asked:
            raw.send(CLIENT, POST, b"crash", b"any", uuid, _BODY)
            raw.send(CLIENT, DELETE, b"crash", b"any", uuid, b"")
        cancelled: set[bytes] = set()
        while len(cancelled) < 40:
            frames = raw.get()
            if frames[1] == RESPONSE and frames[4] == b"200":
                cancelled.add(frames[3])
        b.kill()
        b.start()
        start_worker(fleet, b, "w", log)
        raw.send(CLIENT, OPEN, b'{"push":true}')
        last = new_id()
        raw.send(CLIENT, POST, b"crash", b"any", last, _BODY)
        until(lambda: last in executions(log), "the worker works")
    b.stop()
    assert not cancelled & set(executions(log))
    ends = audit(list(records(b)))
    assert {ends[uuid.decode()] for uuid in cancelled} == {"cancelled"}
