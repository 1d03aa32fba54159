"""The asynchronous client against a real broker and worker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman import AsyncClient, JobFailed, Worker
from dragoman.model.content import Call, Unmappable
from dragoman.sdk.client import default_name
from dragoman.sdk.errors import Cancelled, Expired, Unreachable
from dragoman.sdk.jobs import Chunk, InputAsked, Progress
from dragoman.testing.harness import LocalBroker


def with_client(url: str, play: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with asyncio.timeout(30), AsyncClient(url) as client:
            return await play(client)

    return asyncio.run(run())


def test_a_call_returns_the_value(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        assert await client.call("math", "add", x=2, y=3) == 5
        assert await client.call("math", "add", 2, 3, timeout=10) == 5
        assert await client.call("math", "later", x=7) == 7

    with_client(url, play)


def test_a_failed_task_raises_with_the_workers_words(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        with pytest.raises(JobFailed, match="not today"):
            await client.call("math", "refuse")

    with_client(url, play)


def test_arguments_that_clash_with_options_go_in_a_call(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        job = client.order("math", Call("add", (), {"x": 1, "y": 1}))
        assert await job.result(10) == 2

    with_client(url, play)


def test_what_cannot_be_written_is_not_asked_for(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        job = "0" * 32
        with pytest.raises(Unmappable):
            client.order("math", Call("add", (object(),), {}), job=job)
        # Nothing is left of it: the broker is asked, and does not know it.
        with pytest.raises(JobFailed, match=job):
            await client.job(job).result(10)

    with_client(url, play)


def test_the_answer_of_all_is_by_worker(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        assert await client.call("math", "add", x=1, target="all") == {"w1": 1}
        assert await client.call("math", "add", x=1, target="w1") == 1

    with_client(url, play)


def test_events_come_in_order_and_end_with_the_job(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        job = await client.submit("math", "steps", n=3)
        events = [e async for e in job.events()]
        assert [e.event["step"] for e in events if isinstance(e, Progress)] == [0, 1, 2]
        assert [e.data for e in events if isinstance(e, Chunk)] == [b"piece"]
        assert await job.result(10) == "stepped"
        assert job.workers == ("w1",)

    with_client(url, play)


def test_a_worker_can_ask_and_the_client_answer(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        job = await client.submit("math", "confirm")
        async for event in job.events():
            if isinstance(event, InputAsked):
                assert event.question == "proceed?"
                job.give_input(event.request, {"yes": True}, event.worker)
        assert await job.result(10) == {"yes": True}

    with_client(url, play)


def test_a_cancel_is_confirmed_by_the_worker(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        job = await client.submit("math", "until_cancelled")
        async for _ in job.events():
            break
        assert "cancel" in (await job.cancel()).lower()
        with pytest.raises(Cancelled):
            await job.result(10)
        assert await job.cancel() == "already finished"

    with_client(url, play)


def test_a_job_without_a_worker_expires(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        with pytest.raises(Expired):
            await client.call("nobody", "x", timeout=0.3)

    with_client(url, play)


def test_many_calls_come_back_in_order(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        calls = [{"x": n, "y": 1} for n in range(150)]
        found = [r async for r in client.map("math", "add", calls, window=40)]
        assert found == [n + 1 for n in range(150)]
        assert [r async for r in client.map("math", "add", [(1, 2), 5])] == [3, 5]

    with_client(url, play)


def test_the_same_id_is_the_same_job_and_another_body_a_conflict(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        first = await client.submit("math", "add", x=1, job="same")
        assert await first.result(10) == 1
        again = await client.submit("math", "add", x=1, job="same")
        assert await again.result(10) == 1
        other = await client.submit("math", "add", x=2, job="same")
        with pytest.raises(JobFailed, match="conflict"):
            await other.result(10)

    with_client(url, play)


def test_another_client_can_read_the_result(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        job = await client.submit("math", "add", x=4)
        assert await job.result(10) == 4
        async with AsyncClient(url) as other:
            assert await other.job(job.id).result(10) == 4

    with_client(url, play)


def test_a_job_that_was_forgotten_goes_on_and_can_be_asked_for_again(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        job = client.order("math", Call("add", (), {"x": 1, "y": 4}))
        await job.wait_until_acknowledged(10)
        client.forget(job)
        again = client.job(job.id)
        assert again is not job
        assert await again.result(10) == 5

    with_client(url, play)


def test_events_can_be_followed(url: str) -> None:
    async def play(client: AsyncClient) -> None:
        seen = []
        await client.call("math", "add", x=1, job="watched")
        async for event in client.subscribe("broker.*", after=0):
            seen.append(event)
            if event.event.get("job") == "watched" and event.topic == "broker.ended":
                break
        assert [e.seq for e in seen] == list(range(1, len(seen) + 1))

    with_client(url, play)


def test_an_absent_broker_is_unreachable() -> None:
    async def play(client: AsyncClient) -> None:
        job = await client.submit("math", "add", x=1)
        with pytest.raises(Unreachable):
            await job.result(0.2)

    with_client("nfp://127.0.0.1:9", play)


def test_names_are_made_up_differently() -> None:
    assert default_name() != default_name()


@pytest.mark.process
@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss"])
def test_the_same_key_runs_once_and_is_answered_twice_and_another_body_is_a_conflict(
    dialect: str,
) -> None:
    ran: list[int] = []
    with LocalBroker("nfp", "dcp", "zss", "zss_backend") as broker:
        worker = Worker(broker.url("nfp"), service="keyed", own_process_beats=False)

        @worker.task
        def note(n: int) -> int:
            ran.append(n)
            return n

        async def play(client: AsyncClient) -> None:
            assert await client.call("keyed", "note", n=7, key="order 66", timeout=20) == 7
            assert await client.call("keyed", "note", n=7, key="order 66", timeout=20) == 7
            both = [await client.submit("keyed", "note", n=8, key="twice") for _ in range(2)]
            assert [await job.result(20) for job in both] == [8, 8]
            with pytest.raises(JobFailed, match="another body"):
                await client.call("keyed", "note", n=9, key="order 66", timeout=20)

        with worker:
            with_client(broker.url(dialect), play)
    assert ran == [7, 8]
