"""Options apart from task arguments: no argument of a task is lost."""

import asyncio
from collections.abc import Iterator
from typing import Any, assert_type

import pytest

import dragoman
from dragoman import AsyncClient, Client, Worker
from dragoman.sdk.calls import CallOptions, split_options
from dragoman.testing.harness import LocalBroker

#: Arguments with the names of all options, and of the parameters of `call`.
CLASHING = {"target": 1, "timeout": 2, "priority": 3, "key": 4, "job_id": 5, "raw": 6, "task": 7}


@pytest.fixture(scope="module")
def url(broker: LocalBroker) -> Iterator[str]:
    worker = Worker(broker.url("nfp"), service="media", own_process_beats=False)

    @worker.task
    def get(**kwargs: Any) -> dict[str, Any]:
        return kwargs

    @worker.task
    def size(data: bytes) -> int:
        return len(data)

    with worker:
        yield broker.url("nfp")


def test_a_task_gets_arguments_with_the_names_of_options(url: str) -> None:
    with Client(url) as client:
        assert client.service("media").get(**CLASHING) == CLASHING
        assert client.options(timeout=20).call("media", "get", **CLASHING) == CLASHING
        assert client.options(timeout=20).submit("media", "get", key="k").result(20) == {"key": "k"}
        items = [{"key": n} for n in range(3)]
        assert list(client.options(timeout=20).map("media", "get", items, window=2)) == items
        assert list(client.map("media", "get", items, timeout=20)) == items
        assert client.options(timeout=20).call_raw("media", b"abc", task="size") == 3


def test_the_asynchronous_client_has_the_same(url: str) -> None:
    async def play() -> None:
        async with AsyncClient(url) as client:
            assert await client.service("media").get(**CLASHING) == CLASHING
            caller = client.options(timeout=20)
            assert await caller.submit("media", "get", key="k").result(20) == {"key": "k"}
            assert [r async for r in caller.map("media", "get", [{"key": 1}])] == [{"key": 1}]
            assert await caller.call_raw("media", b"abc", task="size") == 3

    asyncio.run(play())


def test_options_reach_the_broker(url: str) -> None:
    with Client(url) as client:
        once = client.options(key="order 66", timeout=20)
        first, second = once.submit("media", "get", n=1), once.submit("media", "get", n=1)
        assert first.result(20) == second.result(20)
        with pytest.raises(dragoman.JobFailed, match="another body"):
            once.call("media", "get", n=2)
        assert client.options(job="named", timeout=20).submit("media", "get").id == "named"
        with pytest.raises(dragoman.Expired):
            client.options(timeout=0.2).call("nowhere", "get")


def test_options_among_the_arguments_still_work_with_a_warning(url: str) -> None:
    warned = pytest.warns(DeprecationWarning, match=r"key.*use client.options\(timeout=")
    with Client(url) as client, warned:
        assert client.call("media", "get", n=1, timeout=20, key="mixed") == {"n": 1}


def test_mixed_arguments_are_split() -> None:
    options, kwargs = split_options({"timeout": 5.0, "key": "k", "raw": b"x", "n": 1})
    assert options == CallOptions(timeout=5.0, key="k")
    assert kwargs == {"raw": b"x", "n": 1}


def test_a_private_name_is_no_task(url: str) -> None:
    with Client(url) as client, pytest.raises(AttributeError):
        _ = client.service("media").__wrapped__


def test_everything_that_is_exported_can_be_imported() -> None:
    assert all(getattr(dragoman, name) is not None for name in dragoman.__all__)


def test_a_misspelt_option_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        Client("nfp://127.0.0.1:9").options(timout=3)  # type: ignore[call-arg]


def test_a_task_keeps_the_type_of_its_function() -> None:
    worker = Worker("nfp://127.0.0.1:9", service="typed")

    @worker.task
    def double(n: int) -> int:
        return 2 * n

    @worker.task(name="half")
    def halve(n: int) -> float:
        return n / 2

    assert_type(double(2), int)
    assert_type(halve(2), float)
    double("2")  # type: ignore[arg-type]
    assert worker.task_names() == ["double", "half"]


def test_many_jobs_are_submitted_at_once_and_come_as_they_end(url: str) -> None:
    with Client(url) as client:
        caller = client.options(timeout=20)
        jobs = caller.submit_many("media", "get", [{"n": n} for n in range(50)])
        ended = list(client.as_completed(jobs))
        assert {job.id for job in ended} == {job.id for job in jobs}
        assert [job.result(5)["n"] for job in jobs] == list(range(50))
        with pytest.raises(ValueError, match="cannot share one key"):
            client.options(key="k").submit_many("media", "get", [{}])


def test_the_end_of_another_clients_job_is_known_soon(url: str) -> None:
    with Client(url) as one, Client(url) as other:
        job = one.options(timeout=60).submit("media", "get", n=1)
        assert job.wait_until_acknowledged(30)
        assert other.job(job.id).result(30) == {"n": 1}
