"""Child jobs through the SDK, for workers of every dialect that carries them, on a real broker."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import Client, JobFailed, NotDeterministic, NotInDialect, Retry, Worker
from dragoman.cli.broker_call import ask_broker
from dragoman.model.content import Call
from dragoman.sdk.child_jobs import CallsChildren, ChildClient, Children
from dragoman.sdk.context import JobContext
from dragoman.sdk.url import parse_url
from dragoman.testing.harness import LocalBroker

LINKS = ("nfp", "dcp", "zss", "zss_backend", "memo", "http", "mdp")
#: Set when the task `forever` runs, and when `forever_shared` may end.
began, never, shared = threading.Event(), threading.Event(), threading.Event()
CAN = ("nfp", "dcp", "zss", "http", "mdp")


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(*LINKS) as broker:
        yield broker


@pytest.fixture(scope="module")
def runs() -> Counter[str]:
    return Counter()


@pytest.fixture(scope="module")
def steps(broker: LocalBroker, runs: Counter[str]) -> Iterator[Worker]:
    worker = Worker(broker.url("nfp"), "steps", own_process_beats=False)

    @worker.task
    def double(x: int) -> int:
        runs[f"double {x}"] += 1
        return 2 * x

    @worker.task
    def fail_once(name: str) -> str:
        runs[name] += 1
        if runs[name] == 1:
            raise ValueError("the first time")
        return name

    @worker.task
    def forever_shared() -> str:
        assert shared.wait(20)
        return "shared"

    @worker.task
    def forever(job: JobContext) -> str:
        began.set()
        while not job.is_cancelled:
            never.wait(0.01)
        return "stopped"

    with worker:
        yield worker


def parent_of(broker: LocalBroker, dialect: str, service: str, **options: Any) -> Worker:
    url = broker.url(dialect, for_workers=True)
    worker = Worker(url, service, own_process_beats=False, files_url=broker.url(dialect), **options)

    @worker.task
    async def in_order(job: JobContext, n: int) -> list[int]:
        return [await job.call("steps", "double", x) for x in range(n)]

    @worker.task
    async def together(job: JobContext, n: int) -> list[int]:
        return list(await asyncio.gather(*(job.call("steps", "double", x) for x in range(n))))

    @worker.task
    def plain(job: JobContext, n: int) -> list[int]:
        children = [job.blocking.submit("steps", "double", x) for x in range(n)]
        return [child.result() for child in children]

    @worker.task
    def windowed(job: JobContext, n: int) -> int:
        return sum(job.blocking.map("steps", "double", range(n), window=3))

    return worker


@pytest.mark.parametrize("dialect", CAN)
def test_a_task_calls_other_services(broker: LocalBroker, steps: Worker, dialect: str) -> None:
    with parent_of(broker, dialect, f"parent {dialect}"), Client(broker.url("nfp")) as client:
        call = client.options(timeout=30).call
        for task in ("in_order", "together", "plain"):
            assert call(f"parent {dialect}", task, n=4) == [0, 2, 4, 6]
        assert call(f"parent {dialect}", "windowed", n=10) == 90


def test_a_dialect_that_does_not_name_jobs_says_so_at_once(
    broker: LocalBroker, steps: Worker
) -> None:
    says = "connect this worker over one of nfp, dcp"
    with (
        parent_of(broker, "memo", "parent memo"),
        Client(broker.url("nfp")) as client,
        pytest.raises(JobFailed, match=says),
    ):
        client.options(timeout=30).call("parent memo", "plain", n=1)


def test_a_retry_of_the_parent_repeats_only_what_failed(
    broker: LocalBroker, steps: Worker, runs: Counter[str]
) -> None:
    worker = Worker(broker.url("nfp"), "again", own_process_beats=False)

    @worker.task(retries=Retry(1, backoff=0.01))
    async def two(job: JobContext) -> list[Any]:
        return [
            await job.call("steps", "double", 1001),
            await job.call("steps", "fail_once", "shaky"),
        ]

    with worker, Client(broker.url("nfp")) as client:
        job = client.options(timeout=30).submit("again", "two")
        assert job.result(30) == [2002, "shaky"]
        assert (runs["double 1001"], runs["shaky"]) == (1, 2)
        tree = ask_broker(broker.url("nfp"), "why", job.id)
    assert tree["child_states"] == {"succeeded": 2}
    assert [(c["position"], c["service"], c["task"]) for c in tree["children"]] == [
        (1, "steps", "double"),
        (2, "steps", "fail_once"),
    ]


def test_a_task_that_changes_its_mind_is_not_deterministic(
    broker: LocalBroker, steps: Worker
) -> None:
    worker = Worker(broker.url("nfp"), "moody", own_process_beats=False)
    moods = iter((1, 2))
    told: list[str] = []

    @worker.task(retries=Retry(1, backoff=0.01))
    async def moody(job: JobContext) -> None:
        try:
            await job.call("steps", "double", next(moods))
        except NotDeterministic as error:
            told.append(error.fault.message)
            raise
        raise ValueError("again")

    with (
        worker,
        Client(broker.url("nfp")) as client,
        pytest.raises(JobFailed, match="not deterministic"),
    ):
        client.options(timeout=30).call("moody", "moody")
    assert "steps.double" in told[0]


def test_a_position_can_be_named(broker: LocalBroker, steps: Worker) -> None:
    worker = Worker(broker.url("nfp"), "named", own_process_beats=False)

    @worker.task
    async def named(job: JobContext) -> list[int]:
        second = job.options(position=2).submit("steps", "double", 2)
        first = job.options(position=1, timeout=20).submit("steps", "double", 1)
        assert (first.position, second.position) == (1, 2)
        return [await first.result(), await second.result()]

    with worker, Client(broker.url("nfp")) as client:
        assert client.options(timeout=30).call("named", "named") == [2, 4]


def test_a_cancel_reaches_the_children(broker: LocalBroker, steps: Worker) -> None:
    worker = Worker(broker.url("nfp"), "waits", own_process_beats=False)
    child: list[str] = []

    @worker.task
    def waits(job: JobContext) -> None:
        child.append((found := job.blocking.submit("steps", "forever")).id)
        found.result()

    with worker, Client(broker.url("nfp")) as client:
        job = client.options(timeout=60).submit("waits", "waits")
        assert began.wait(20)
        job.cancel()
        with pytest.raises(JobFailed):
            client.job(child[0]).result(20)
        assert ask_broker(broker.url("nfp"), "why", child[0])["parent"] == job.id
        assert ask_broker(broker.url("nfp"), "why", child[0])["reason"] == "cancelled"


def test_parents_that_wait_do_not_use_up_the_threads(broker: LocalBroker) -> None:
    worker = Worker(broker.url("nfp"), "nested", own_process_beats=False, concurrency=1)

    @worker.task
    def depth(job: JobContext, n: int) -> int:
        return 1 + (job.blocking.call("nested", "depth", n - 1) if n else 0)

    with worker, Client(broker.url("nfp")) as client:
        assert client.options(timeout=30).call("nested", "depth", 5) == 6


def test_two_runs_of_one_parent_in_one_worker_share_their_children(
    broker: LocalBroker, steps: Worker
) -> None:
    """The first run goes on after its worker was lost for a while, beside the second one."""
    endpoint = parse_url(broker.url("nfp"))
    worker = Worker(broker.url("nfp"), "twice", own_process_beats=False)

    @worker.task
    def twice(job: JobContext) -> list[str]:
        client = ChildClient(endpoint, broker.url("nfp"), "twice")
        runs = [Children(job, client) for _ in range(2)]
        children = [run.submit("steps", Call("forever_shared")) for run in runs]
        shared.set()
        try:
            return [child.wait(20) for child in children]
        finally:
            client.close()

    with worker, Client(broker.url("nfp")) as client:
        assert client.options(timeout=30).call("twice", "twice") == ["shared", "shared"]


def test_an_async_task_that_would_block_the_others_is_told_what_to_write(
    broker: LocalBroker, steps: Worker
) -> None:
    worker = Worker(broker.url("nfp"), "blocks", own_process_beats=False)

    @worker.task
    async def blocks(job: JobContext) -> int:
        return int(job.blocking.call("steps", "double", 1))

    with (
        worker,
        Client(broker.url("nfp")) as client,
        pytest.raises(JobFailed, match=r"write `await job\.call"),
    ):
        client.options(timeout=30).call("blocks", "blocks")


def test_a_task_elsewhere_has_no_children() -> None:
    with pytest.raises(NotInDialect, match="run it in a thread or as async"):
        CallsChildren().call("steps", "double", 1)
