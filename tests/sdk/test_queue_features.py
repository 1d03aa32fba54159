"""Retries and delays through the SDK, over every dialect that carries them, on a real broker."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event

import pytest

from dragoman import Client, JobFailed, Limit, Permanent, Retry, Worker
from dragoman.dialects.peer_sides import Unsupported
from dragoman.testing.harness import LocalBroker

LINKS = ("nfp", "dcp", "zss", "zss_backend", "memo", "http", "mdp")
QUICK = Retry(2, backoff=0.01)
SERVICES = {
    "served": {
        "retries": 1,
        "retry_backoff": 0.01,
        "tasks": {"often": {"retries": 3, "retry_backoff": 0.01}},
    },
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    data: Path = tmp_path_factory.mktemp("queue")
    with LocalBroker(*LINKS, data=data, services=SERVICES) as broker:
        yield broker


class Shaky:
    """A worker whose tasks fail so many times before they succeed."""

    def __init__(self, broker: LocalBroker, service: str, dialect: str = "nfp") -> None:
        url = broker.url(dialect, for_workers=True)
        self.worker = Worker(url, service, own_process_beats=False)
        self.runs: Counter[str] = Counter()
        self.worker.task(self.shaky)
        self.worker.task(self.shaky, name="often")
        self.worker.task(self.hopeless)
        self.worker.task(self.shaky, name="own", retries=QUICK)
        self.worker.task(retry_on=(OSError,), retries=QUICK, name="picky")(self.picky)

    def shaky(self, name: str, failures: int) -> int:
        self.runs[name] += 1
        if self.runs[name] <= failures:
            raise ConnectionError(f"run {self.runs[name]} failed")
        return self.runs[name]

    def hopeless(self, name: str) -> None:
        self.runs[name] += 1
        raise Permanent("there is no such user")

    def picky(self, name: str, error: str) -> int:
        self.runs[name] += 1
        if self.runs[name] > 1:
            return self.runs[name]
        raise (ConnectionError if error == "connection" else ValueError)(error)


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http", "mdp"])
def test_the_retries_of_a_call_reach_the_broker_over(broker: LocalBroker, dialect: str) -> None:
    shaky = Shaky(broker, f"shaky-{dialect}")
    with shaky.worker, Client(broker.url(dialect)) as client:
        caller = client.options(timeout=20, retries=QUICK)
        assert caller.call(f"shaky-{dialect}", "shaky", "a", 2) == 3
        with pytest.raises(JobFailed, match="run 3 failed"):
            caller.call(f"shaky-{dialect}", "shaky", "b", 3)
        with pytest.raises(JobFailed, match="Permanent: there is no such user"):
            caller.call(f"shaky-{dialect}", "hopeless", "c")
        assert shaky.runs["c"] == 1


def test_no_retries_in_a_call_switch_those_of_the_task_and_the_service_off(
    broker: LocalBroker,
) -> None:
    shaky = Shaky(broker, "served")
    with shaky.worker, Client(broker.url("nfp")) as client:
        for task in ("own", "often"):
            with pytest.raises(JobFailed, match="run 1 failed"):
                client.options(timeout=20, retries=0).call("served", task, task, 1)


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http", "mdp"])
def test_the_limit_of_a_call_reaches_the_broker_over(broker: LocalBroker, dialect: str) -> None:
    service, barrier = f"limited-{dialect}", Barrier(2)

    def meets(_: int) -> bool:
        """Tell whether another task runs at the same time."""
        try:
            barrier.wait(0.2)
        except BrokenBarrierError:
            barrier.reset()
            return False
        return True

    worker = Worker(broker.url("nfp"), service, concurrency=2, own_process_beats=False)
    worker.task(meets)
    with worker, Client(broker.url(dialect)) as client:
        one = client.options(timeout=20, limit=Limit("user:42", concurrency=1))
        jobs = [one.submit(service, "meets", n) for n in range(2)]
        assert [job.result(20) for job in jobs] == [False, False]


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http", "mdp"])
def test_the_unique_key_of_a_call_reaches_the_broker_over(
    broker: LocalBroker, dialect: str
) -> None:
    service, runs, may_end = f"unique-{dialect}", Event(), Event()

    def once(n: int) -> int:
        runs.set()
        may_end.wait(20)
        return n

    worker = Worker(broker.url("nfp"), service, own_process_beats=False)
    worker.task(once)
    with worker, Client(broker.url(dialect)) as client:
        only = client.options(timeout=20, unique=service)
        first = only.submit(service, "once", 1)
        assert runs.wait(20)
        with pytest.raises(JobFailed, match=f"has the unique key {service}"):
            only.call(service, "once", 2)
        may_end.set()
        assert first.result(20) == 1


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "memo", "http", "mdp"])
def test_a_worker_announces_the_retries_of_a_task_over(broker: LocalBroker, dialect: str) -> None:
    service = f"own-{dialect}"
    shaky = Shaky(broker, service, dialect)
    with shaky.worker, Client(broker.url("nfp")) as client:
        assert client.options(timeout=20).call(service, "own", "a", 2) == 3


def test_a_task_says_after_which_exceptions_a_retry_helps(broker: LocalBroker) -> None:
    shaky = Shaky(broker, "picky")
    with shaky.worker, Client(broker.url("nfp")) as client:
        assert client.options(timeout=20).call("picky", "picky", "a", "connection") == 2
        with pytest.raises(JobFailed, match="Permanent: ValueError: value"):
            client.options(timeout=20).call("picky", "picky", "b", "value")


def test_the_settings_of_a_service_apply_where_a_dialect_has_no_room(broker: LocalBroker) -> None:
    shaky = Shaky(broker, "served")
    with shaky.worker, Client(broker.url("memo")) as client:
        assert client.options(timeout=20).call("served", "shaky", "a", 1) == 2


def test_the_settings_of_a_task_come_before_those_of_its_service(broker: LocalBroker) -> None:
    shaky = Shaky(broker, "served")
    with shaky.worker, Client(broker.url("nfp")) as client:
        assert client.options(timeout=20).call("served", "often", "b", 3) == 4
        with pytest.raises(JobFailed):
            client.options(timeout=20).call("served", "shaky", "c", 2)


def test_memo_says_that_it_has_no_options(broker: LocalBroker) -> None:
    with (
        Client(broker.url("memo")) as client,
        pytest.raises(Unsupported, match="no options"),
    ):
        client.options(retries=1, timeout=5).call("any", "thing")


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http", "mdp"])
def test_a_delay_and_an_instant_reach_the_broker_over(broker: LocalBroker, dialect: str) -> None:
    with Client(broker.url(dialect)) as client, Client(broker.url("nfp")) as asking:
        tomorrow = datetime.now().astimezone() + timedelta(days=1)
        for options in ({"delay": timedelta(hours=1)}, {"at": tomorrow}):
            job = client.options(**options).submit("nobody", "task")
            assert job.wait_until_acknowledged(10) or not client.is_acknowledged
            why = asking.options(timeout=20).call("mmi.service.broker", "why", job.id)
            assert why["reason"] == "delayed"
            job.cancel()


def test_a_delayed_job_runs(broker: LocalBroker) -> None:
    shaky = Shaky(broker, "later")
    with shaky.worker, Client(broker.url("http")) as client:
        assert client.options(delay=0.05, timeout=20).call("later", "shaky", "a", 0) == 1


def test_an_option_that_cannot_be_meant_is_refused(broker: LocalBroker) -> None:
    with Client(broker.url("http")) as client, pytest.raises(JobFailed, match="delay"):
        client.options(delay=-1.0, timeout=5).call("later", "shaky")
