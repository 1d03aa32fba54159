"""A job as its client sees it, without any broker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.dialects.peer_sides import (
    Dispatched,
    Finished,
    Progress,
    Queued,
    StatusNotice,
    Submission,
)
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ALL, ANY, Named, Target
from dragoman.sdk.errors import Denied, JobFailed, StillRunning, Unreachable
from dragoman.sdk.jobs import AsyncJob

JOB = JobId("j")


class SilentClient:
    """A client that sends nothing."""

    connection_hint = ""

    def cancel_job(self, job: AsyncJob) -> None: ...

    async def forget_result(self, job_id: str) -> None: ...

    async def load(self, found: object) -> Any: ...

    def send_input(self, job: AsyncJob, request: str, answer: Any, worker: str) -> None: ...


def play(scene: Callable[[AsyncJob], Awaitable[Any]], target: Target = ANY) -> Any:
    async def run() -> Any:
        return await scene(AsyncJob(Submission(JOB, "s", Call(), target), SilentClient(), 0.0))

    return asyncio.run(run())


def test_a_silent_broker_is_unreachable_and_a_silent_worker_is_still_running() -> None:
    async def scene(job: AsyncJob) -> None:
        with pytest.raises(Unreachable):
            await job.result(0.01)
        job.receive(Queued(JOB))
        with pytest.raises(StillRunning):
            await job.result(0.01)

    play(scene)


def test_events_end_with_the_job_or_after_their_time() -> None:
    async def scene(job: AsyncJob) -> None:
        assert [event async for event in job.events(0.01)] == []
        job.receive(Progress(JOB, "half", "w"))
        assert [event async for event in job.events(0.01)] == [Progress(JOB, "half", "w")]
        job.receive(Finished(JOB, (Answer(1),), state=JobState.SUCCEEDED))
        assert [event async for event in job.events()] == []
        assert [event async for event in job.events(10.0)] == []

    play(scene)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ANY, 1),
        (Named((WorkerName("w"),)), 1),
        (ALL, {"w": 1}),
        (Named((WorkerName("w"), WorkerName("v"))), {"w": 1}),
    ],
)
def test_a_result_is_a_value_for_one_and_by_worker_for_several(
    target: Target, expected: Any
) -> None:
    async def scene(job: AsyncJob) -> Any:
        job.receive(Finished(JOB, (Answer(1, worker="w"),)))
        return await job.result()

    assert play(scene, target) == expected


def test_a_fault_of_the_job_or_of_one_worker_raises() -> None:
    fault = Fault(FaultCode.TASK_FAILED, "no")

    async def scene(job: AsyncJob) -> None:
        job.receive(Finished(JOB, (Answer(1, worker="a"), Answer(fault=fault, worker="b"))))
        with pytest.raises(JobFailed) as failed:
            await job.result()
        assert len(failed.value.answers) == 2

    play(scene, ALL)


def test_events_end_with_the_job_and_a_second_reader_ends_too() -> None:
    async def scene(job: AsyncJob) -> None:
        job.receive(Dispatched(JOB, (WorkerName("w"),)))
        job.receive(Progress(JOB, 1))
        job.receive(Finished(JOB))
        job.receive(Finished(JOB, (Answer(2),)))
        assert [type(e) async for e in job.events()] == [Dispatched, Progress]
        assert [e async for e in job.events()] == []
        assert await job.result() is None, "the first end counts"

    play(scene)


def test_a_cancel_tells_what_became_of_the_job() -> None:
    async def scene(job: AsyncJob) -> None:
        asking = asyncio.create_task(job.cancel())
        await asyncio.sleep(0)
        job.receive(StatusNotice(JOB, JobState.RUNNING, "the answer to an earlier question"))
        job.receive(StatusNotice(JOB, JobState.CANCELLED, "confirmed"))
        assert await asking == "cancelled"
        with pytest.raises(Unreachable):
            await job.cancel(0.01)

    play(scene)


def test_a_denied_cancel_raises_and_the_own_job_goes_on() -> None:
    async def scene(job: AsyncJob) -> None:
        asking = asyncio.create_task(job.cancel())
        await asyncio.sleep(0)
        job.receive(StatusNotice(JOB, "unknown", "no right to cancel", "denied"))
        with pytest.raises(Denied, match="no right to cancel"):
            await asking
        assert not job.is_done

    play(scene)


def test_a_denied_question_about_a_job_of_another_ends_the_wait() -> None:
    async def scene() -> None:
        job = AsyncJob(Submission(JOB, "", Call(), ANY), SilentClient(), 0.0)
        job.receive(StatusNotice(JOB, "unknown", "no right to read", "denied"))
        with pytest.raises(Denied, match="no right to read"):
            await job.result(1)
        with pytest.raises(Denied):
            await job.cancel()

    asyncio.run(scene())


def test_giving_up_ends_every_wait() -> None:
    async def scene(job: AsyncJob) -> None:
        job.give_up(ConnectionError("closed"))
        with pytest.raises(ConnectionError):
            await job.result()
        assert [e async for e in job.events()] == []

    play(scene)
