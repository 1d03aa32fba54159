"""Our client and worker over real sockets, between real processes, in good and bad times."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, Process, free_port, until
from tests.interop.norfab_peers import start_worker as start_real_worker
from tests.interop.raw_nfp import RawClient, until_workers

from dragoman import AsyncClient, Client, JobFailed
from dragoman.dialects.peer_sides import Chunk, Dispatched, InputAsked, Progress
from dragoman.model.fault import FaultCode
from dragoman.sdk.errors import Cancelled, Expired, StillRunning, Unreachable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]


def start_worker(
    fleet: Fleet,
    broker: Broker,
    name: str,
    *more: str,
    service: str = "probe",
    log: Path | str = "",
) -> Process:
    arguments = ("tests.interop.tasks", "--service", service, "--name", name, *more)
    process = fleet.dragoman(
        "worker", *arguments, "--url", broker.url(), env={"TASKS_LOG": str(log)}
    )
    until_workers(broker.endpoints["nfp"], name)
    return process


def lines(log: Path, word: str = "ran") -> list[str]:
    found = log.read_text().splitlines() if log.exists() else []
    return [line for line in found if line.startswith(word + " ")]


def test_every_verb_works(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    start_worker(fleet, b, "w1")
    with Client(b.url()) as client:
        assert client.call("probe", "add", x=2, y=3, timeout=20) == 5
        assert client.call("probe", "add", 2, 3, timeout=20) == 5
        assert client.call("probe", "add", x=1, target="all", timeout=20) == {"w1": 1}

        job = client.submit("probe", "steps", n=3, timeout=20)
        told = list(job.events())
        assert isinstance(told[0], Dispatched)
        assert [e.event for e in told if isinstance(e, Progress)] == [{"step": i} for i in range(3)]
        assert job.result(10) == 3
        # Any client may ask for it later, by id.
        with Client(b.url()) as other:
            assert other.job(job.id).result(10) == 3

        job = client.submit("probe", "pour", chunks=4, timeout=20)
        chunks = [e.data for e in job.events() if isinstance(e, Chunk)]
        assert b"".join(chunks) == b"0;1;2;3;"

        job = client.submit("probe", "confirm", timeout=20)
        for event in job.events():
            if isinstance(event, InputAsked):
                job.give_input(event.request, {"yes": True}, event.worker)
        assert job.result(10) == {"yes": True}

        job = client.submit("probe", "listen", count=3, timeout=20)
        for event in job.events():
            if isinstance(event, Progress):
                for i in range(3):
                    job.give_input("", i)
        assert len(job.result(10)) == 3

        with pytest.raises(JobFailed, match="broken on purpose"):
            client.call("probe", "broken", timeout=20)
        with pytest.raises(JobFailed, match="unknown task"):
            client.call("probe", "no_such_task", timeout=20)

        begun = time.monotonic()
        calls = [{"x": i, "y": i} for i in range(300)]
        found = list(client.map("probe", "add", calls, window=50, timeout=30))
        assert found == [2 * i for i in range(300)]
        assert time.monotonic() - begun < 20


def test_the_asynchronous_client_has_the_same_verbs(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    start_worker(fleet, b, "w1")

    async def scene() -> None:
        async with AsyncClient(b.url()) as client:
            sums = [client.call("probe", "add", x=i, y=1, timeout=20) for i in range(50)]
            assert await asyncio.gather(*sums) == [i + 1 for i in range(50)]
            job = await client.submit("probe", "steps", n=2, timeout=20)
            told = [e.event async for e in job.events() if isinstance(e, Progress)]
            assert told == [{"step": 0}, {"step": 1}]
            mapped = [r async for r in client.map("probe", "add", [(1, 2), (3, 4)])]
            assert mapped == [3, 7]

    asyncio.run(scene())


def test_cancels_are_confirmed_by_our_worker_and_not_by_a_real_one(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker()
    start_worker(fleet, b, "ours")
    start_real_worker(fleet, b.endpoints["nfp"], "real", "real")
    with Client(b.url()) as client:
        # One that waits never starts.
        waiting = client.submit("nobody", "add", timeout=30)
        assert waiting.wait_until_acknowledged(10)
        assert "cancelled" in waiting.cancel().lower()
        with pytest.raises(Cancelled):
            waiting.result(10)

        running = client.submit("probe", "patient", timeout=60)
        assert any(isinstance(e, Progress) for e in running.events())
        begun = time.monotonic()
        assert "cancelled" in running.cancel().lower()
        with pytest.raises(Cancelled) as failure:
            running.result(10)
        assert failure.value.fault.code is FaultCode.CANCELLED
        assert time.monotonic() - begun < 5
        assert "finished" in running.cancel().lower()

        until_workers(b.endpoints["nfp"], "real")
        deaf = client.submit("real", "slow", seconds=30, timeout=60)
        until(lambda: deaf.workers == ("real",), "it runs")
        assert "may still run it" in deaf.cancel(timeout=30)
        with pytest.raises(Cancelled) as failure:
            deaf.result(10)
        assert failure.value.fault.code is FaultCode.CANCEL_UNCONFIRMED


def test_deadlines_end_jobs_and_waiting_alike(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    start_worker(fleet, b, "w1")
    with Client(b.url()) as client:
        begun = time.monotonic()
        with pytest.raises(Expired):
            client.call("probe", "slow", seconds=20, timeout=1)
        assert time.monotonic() - begun < 5
        with pytest.raises(Expired):
            client.call("nobody", "add", timeout=1)
        job = client.submit("probe", "slow", seconds=3, timeout=30)
        with pytest.raises(StillRunning):
            job.result(0.5)
        assert job.result(20) == 3
    with Client(f"nfp://127.0.0.1:{free_port()}") as nobody, pytest.raises(Unreachable):
        nobody.submit("probe", "add").result(1.0)


def test_a_client_gets_its_results_over_a_restart_of_the_broker(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker(settings="[nfp]\nbeat_every = 0.3\nmissed_allowed = 50\n")
    start_worker(fleet, b, "w1")
    with Client(b.url()) as client:
        before = client.submit("probe", "slow", seconds=2, timeout=60)
        queued = client.submit("later", "add", x=1, y=1, timeout=60)
        assert before.wait_until_acknowledged(10)
        assert queued.wait_until_acknowledged(10)
        b.kill()
        meanwhile = client.submit("probe", "add", x=40, y=2, timeout=60)
        b.start()
        assert meanwhile.result(30) == 42
        assert before.result(30) == 2
        start_worker(fleet, b, "w2", service="later")
        assert queued.result(30) == 2
        assert client.call("probe", "add", x=1, y=1, timeout=20) == 2


@pytest.mark.timeout(90)
def test_a_silent_broker_makes_the_client_build_a_new_socket(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker(settings="[nfp]\nbeat_every = 0.3\nmissed_allowed = 100\n")
    start_worker(fleet, b, "w1")
    with Client(b.url(), name="steady") as client:
        assert client.call("probe", "add", x=1, timeout=20) == 1
        first = client._client._connection._transport
        b.freeze()
        job = client.submit("probe", "add", x=2, timeout=60)
        until(lambda: client._client._connection._transport is not first, "a new socket", 30)
        b.thaw()
        assert job.result(30) == 2


@pytest.mark.timeout(90)
def test_a_task_that_holds_the_interpreter_lock_keeps_its_job(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    # The lease is 2 s; the lock is held for 6 s, in C, without a pause.
    b = broker(settings="[nfp]\nbeat_every = 0.4\nmissed_allowed = 5\n")
    log = tmp_path / "log"
    start_worker(fleet, b, "busy", log=log)
    with Client(b.url()) as client, RawClient(b.endpoints["nfp"], b"looking") as look:
        job = client.submit("probe", "hold_the_lock", seconds=6, timeout=60)
        until(lambda: lines(log, "begun"), "the lock is held")
        start_worker(fleet, b, "idle", log=log)
        assert job.result(30) == 6
        assert len(lines(log, "begun")) == 1
        assert look.manage("show_totals")["requeued"] == 0
        status: dict[str, Any] = {r["name"]: r for r in look.manage("list_workers")}
        assert status["busy"]["alive_for"] > 6, "it was lost and came back"


def test_sigterm_drains_and_a_second_one_hands_back(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    b = broker()
    log = tmp_path / "log"
    worker = start_worker(fleet, b, "w1", log=log)
    with Client(b.url()) as client:
        job = client.submit("probe", "noted", seconds=2, timeout=60)
        until(lambda: lines(log), "it runs")
        worker.signal(signal.SIGTERM)
        worker.until_it_says("worker drains")
        # What comes now waits for somebody else.
        next_one = client.submit("probe", "add", x=1, timeout=60)
        assert job.result(20)
        assert worker.wait(20) == 0
        assert not next_one.is_done

        log.unlink()
        stubborn = start_worker(fleet, b, "w2", log=log)
        assert next_one.result(20) == 1
        job = client.submit("probe", "noted", seconds=50, timeout=60)
        until(lambda: lines(log), "it runs")
        stubborn.signal(signal.SIGTERM)
        stubborn.until_it_says("worker drains")
        stubborn.signal(signal.SIGTERM)
        assert stubborn.wait(20) == 0
        assert not job.is_done
        begun = time.monotonic()
        heir = start_worker(fleet, b, "w3", log=log)
        until(lambda: len(lines(log)) == 2, "another has it", 20)
        assert time.monotonic() - begun < 20
        heir.signal(signal.SIGTERM)
        heir.until_it_says("worker drains")
        heir.signal(signal.SIGTERM)
        assert heir.wait(20) == 0
        job.cancel()


def test_a_workers_concurrency_is_kept(broker: StartBroker, fleet: Fleet) -> None:
    b = broker()
    start_worker(fleet, b, "narrow", "--concurrency", "1", service="narrow")
    start_worker(fleet, b, "wide", "--concurrency", "4", service="wide")
    with Client(b.url()) as client:
        for service, least, most in (("narrow", 2.0, 9.0), ("wide", 0.5, 1.9)):
            begun = time.monotonic()
            done = list(client.map(service, "slow", [{"seconds": 0.5}] * 4, timeout=30))
            took = time.monotonic() - begun
            assert done == [0.5] * 4
            assert least <= took < most


def test_a_slow_worker_is_not_given_what_another_could_do_now(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker()
    start_worker(fleet, b, "one", "--concurrency", "1")
    with Client(b.url()) as client:
        first = client.submit("probe", "slow", seconds=8, timeout=30)
        until(lambda: first.workers, "it runs")
        second = client.submit("probe", "add", x=1, timeout=30)
        start_worker(fleet, b, "two", "--concurrency", "1")
        assert second.result(5) == 1
        first.cancel()
