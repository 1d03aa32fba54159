"""The same client for code without asyncio."""

import threading

import pytest

from dragoman import Client, JobFailed
from dragoman.sdk.blocking import Portal
from dragoman.sdk.jobs import Progress


def test_all_verbs_work_without_asyncio(url: str) -> None:
    with Client(url) as client:
        assert client.call("math", "add", x=2, y=3) == 5
        job = client.submit("math", "steps", n=2)
        assert job.wait_until_acknowledged(10)
        assert [e.event["step"] for e in job.events() if isinstance(e, Progress)] == [0, 1]
        assert job.result(10) == "stepped"
        assert job.is_done
        assert job.workers == ("w1",)
        assert list(client.map("math", "add", [1, 2, 3])) == [1, 2, 3]
        assert client.job(job.id).result(10) == "stepped"
        with pytest.raises(JobFailed):
            client.call("math", "refuse")


def test_leaving_an_iterator_early_is_fine(url: str) -> None:
    with Client(url) as client:
        for event in client.subscribe("*", after=0):
            assert event.seq == 1
            break
        assert client.call("math", "add", x=1) == 1


def test_a_cancel_and_an_answer_from_any_thread(url: str) -> None:
    with Client(url) as client:
        job = client.submit("math", "until_cancelled")
        next(job.events())
        assert job.cancel()
        asking = client.submit("math", "confirm")
        for event in asking.events():
            if hasattr(event, "request"):
                answer = threading.Thread(target=asking.give_input, args=(event.request, "yes"))
                answer.start()
                answer.join()
        assert asking.result(10) == "yes"


def test_a_portal_ends_its_thread() -> None:
    portal = Portal("test")

    async def work() -> int:
        return 1

    assert portal.wait(work()) == 1
    portal.close()
    assert portal.loop.is_closed()
