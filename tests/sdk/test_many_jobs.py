"""Many jobs at once, on a real broker."""

import threading
from collections.abc import Iterator

import pytest

from dragoman import Client, JobFailed, StillRunning, Worker
from dragoman.testing.harness import LocalBroker

go_on = threading.Event()


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http", "dcp") as broker:
        yield broker


@pytest.fixture(scope="module", autouse=True)
def worker(broker: LocalBroker) -> Iterator[Worker]:
    worker = Worker(broker.url("nfp"), "many", own_process_beats=False)

    @worker.task
    def half(x: int) -> float:
        if x == 13:
            raise ValueError("unlucky")
        return x / 2

    @worker.task
    def wait() -> bool:
        return go_on.wait(30)

    with worker:
        yield worker


def test_results_of_many_jobs_come_in_their_order(broker: LocalBroker) -> None:
    with Client(broker.url("nfp")) as client:
        calls = client.options(timeout=30)
        assert client.gather(calls.submit_many("many", "half", range(10)), 30) == [
            n / 2 for n in range(10)
        ]
        with pytest.raises(JobFailed, match="unlucky"):
            client.gather(calls.submit_many("many", "half", [1, 13]), 30)
        assert client.gather([]) == []


def test_those_that_have_not_ended_are_told_apart(broker: LocalBroker) -> None:
    with Client(broker.url("nfp")) as client:
        calls = client.options(timeout=30)
        quick, slow = calls.submit("many", "half", 4), calls.submit("many", "wait")
        quick.result(30)
        ended, others = client.wait([slow, quick], timeout=0.05)
        assert ([job.id for job in ended], [job.id for job in others]) == ([quick.id], [slow.id])
        with pytest.raises(StillRunning, match=f"1 of 2 jobs .* the first is {slow.id}"):
            client.gather([quick, slow], timeout=0.05)
        go_on.set()
        assert client.wait([slow, quick], timeout=30) == ([slow, quick], [])


@pytest.mark.parametrize("dialect", ["nfp", "http", "dcp"])
def test_one_job_is_followed_to_its_end(broker: LocalBroker, dialect: str) -> None:
    with Client(broker.url("nfp")) as client, Client(broker.url(dialect)) as other:
        client.options(timeout=30).call("many", "half", 1)
        job = client.options(timeout=30).submit("many", "half", 2)
        job.result(30)
        kinds = [each.topic for each in other.follow(job=job.id, after=0)]
        assert kinds[0] == "broker.submitted"
        assert kinds[-1] == "broker.ended"


def test_one_service_is_followed(broker: LocalBroker) -> None:
    with Client(broker.url("nfp")) as client:
        client.options(timeout=30).call("many", "half", 2)
        first = next(client.follow(service="many", after=0))
        assert first.event["service"] == "many"
        with pytest.raises(ValueError, match="one job or one service"):
            next(client.follow())
