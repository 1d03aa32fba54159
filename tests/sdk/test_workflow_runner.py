"""Plans of clients, run by a worker as child jobs, on a real broker."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from threading import Lock

import pytest

from dragoman import Chain, Client, Group, JobFailed, Map, Retry, Step, Worker
from dragoman.sdk.workflow_runner import gather_bounded
from dragoman.testing.harness import LocalBroker

DIALECTS = ("nfp", "dcp", "zss", "http", "mdp")
lock = Lock()
running: Counter[str] = Counter()
runs: Counter[str] = Counter()


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "dcp", "zss", "zss_backend", "http", "mdp", "memo") as broker:
        yield broker


def work_at(url: str, service: str) -> Worker:
    worker = Worker(url, service, own_process_beats=False)

    @worker.task
    def add(x: int, y: int = 0) -> int:
        return x + y

    @worker.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @worker.task
    def upto(n: int) -> list[int]:
        return list(range(n))

    @worker.task
    def shaky(name: str) -> str:
        runs[name] += 1
        if runs[name] == 1:
            raise ConnectionError("the first time")
        return name

    @worker.task
    def now() -> str:
        return "now"

    return worker


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plan_runs_over(broker: LocalBroker, dialect: str) -> None:
    service = f"plans-{dialect}"
    worker = work_at(broker.url(dialect, for_workers=True), service)
    if dialect == "zss":
        worker = Worker(
            broker.url("zss", for_workers=True),
            service,
            own_process_beats=False,
            files_url=broker.url("zss"),
        )
        for task in work_at(broker.url("nfp"), service).tasks.all():
            worker.tasks.add(task)
    worker.offer_workflows()

    def step(task: str, *args: object, **kwargs: object) -> Step:
        return Step(service, task, *args, **kwargs)

    plan = Chain(
        Group(step("add", 1, 2), Chain(step("add", 10), step("add", y=5))),
        step("total"),
        step("upto"),
        Map(step("add", y=1), window=3),
        step("total"),
    )
    with worker, Client(broker.url(dialect)) as client:
        # 3 and 15; 18; 0..17; 1..18; their sum.
        assert client.options(timeout=50).submit_workflow(service, plan).result(50) == 171


@pytest.fixture(scope="module")
def client(broker: LocalBroker) -> Iterator[Client]:
    worker, other = work_at(broker.url("nfp"), "plans"), work_at(broker.url("memo"), "others")
    worker.offer_workflows("plans", "others")
    with worker, other, Client(broker.url("nfp")) as client:
        yield client


def test_a_step_of_another_dialect_is_like_any_other(client: Client) -> None:
    plan = Chain(Step("plans", "add", 1), Step("others", "add", 2), Step("plans", "now").alone())
    assert client.options(timeout=30).submit_workflow("plans", plan).result(30) == "now"


def test_the_options_of_a_step_reach_its_job(client: Client) -> None:
    step = Step("plans", "shaky", "a").with_options(retries=Retry(1, backoff=0.01), timeout=20)
    assert client.options(timeout=30).submit_workflow("plans", step).result(30) == "a"
    plan = Group(Step("plans", "shaky", "b"), Step("plans", "now"))
    with pytest.raises(JobFailed, match="the first time"):
        client.options(timeout=30).submit_workflow("plans", plan).result(30)


def test_a_service_that_the_worker_does_not_offer_is_refused(client: Client) -> None:
    job = client.options(timeout=30).submit_workflow("plans", Step("secret", "read"))
    with pytest.raises(JobFailed, match="name 'secret' in offer_workflows"):
        job.result(30)


def test_a_map_needs_a_list(client: Client) -> None:
    plan = Chain(Step("plans", "add", 1), Map(Step("plans", "add")))
    with pytest.raises(JobFailed, match="the result before it is int, not a list"):
        client.options(timeout=30).submit_workflow("plans", plan).result(30)


def test_at_most_so_many_run_at_a_time() -> None:
    async def all_of_them() -> tuple[list[int], int]:
        most = [0, 0]

        async def one(number: int) -> int:
            most[0] += 1
            most[1] = max(most)
            await asyncio.sleep(0)
            most[0] -= 1
            return number

        found = await gather_bounded([lambda n=n: one(n) for n in range(20)], 3)  # type: ignore[misc]
        return found, most[1]

    assert asyncio.run(all_of_them()) == (list(range(20)), 3)
