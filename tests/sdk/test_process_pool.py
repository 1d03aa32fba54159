"""The process pool with real processes and a list as the worker's running jobs."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sdk import misbehaving

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Answer, Call
from dragoman.model.names import JobId
from dragoman.sdk.context import JobContext
from dragoman.sdk.isolation import NO_LIMITS, TaskLimits
from dragoman.sdk.process_pool import ProcessJob, ProcessPool
from dragoman.sdk.task_reference import refer
from dragoman.sdk.task_results import ForwardRequested
from dragoman.sdk.tasks import make_task

pytestmark = pytest.mark.process


class Jobs:
    """Jobs of a pool: what they said and how they ended."""

    def __init__(self) -> None:
        self.ends: dict[str, asyncio.Future[Any]] = {}
        self.said: asyncio.Queue[tuple[str, tuple[Any, ...]]] = asyncio.Queue()
        self.contexts: dict[str, JobContext] = {}

    def say(self, verb: str, ticket: str, args: tuple[Any, ...]) -> None:
        self.said.put_nowait((verb, args))

    def finish(self, ticket: str, answer: Answer) -> None:
        self.ends[ticket].set_result(answer)

    def forward(self, ticket: str, handover: ForwardRequested) -> None:
        self.ends[ticket].set_result(handover)


class Scene:
    """A pool and its jobs."""

    def __init__(self, pool: ProcessPool, jobs: Jobs) -> None:
        self.pool, self.jobs = pool, jobs

    def submit(self, ticket: str, task: str, *args: Any, limits: TaskLimits = NO_LIMITS) -> None:
        work = Assigned(ticket, JobId(ticket), Call(task, args))
        context = JobContext(work, lambda *message: None, lambda: "r")
        self.jobs.contexts[ticket] = context
        self.jobs.ends[ticket] = asyncio.get_running_loop().create_future()
        reference = refer(make_task(getattr(misbehaving, task)))
        self.pool.submit(ProcessJob(work, context, reference, limits))

    async def end(self, ticket: str) -> Any:
        return await asyncio.wait_for(self.jobs.ends[ticket], 30)

    async def value(self, ticket: str) -> Any:
        return (await self.end(ticket)).value

    async def fault(self, ticket: str) -> str:
        fault = (await self.end(ticket)).fault
        return str(fault.message)

    async def heard(self) -> Any:
        return await asyncio.wait_for(self.jobs.said.get(), 30)


@asynccontextmanager
async def scene_of(size: int, **options: Any) -> AsyncIterator[Scene]:
    jobs = Jobs()
    pool = ProcessPool(jobs, size, **options)
    await pool.open()
    try:
        yield Scene(pool, jobs)
    finally:
        await pool.close()


def test_jobs_wait_for_a_free_process_and_the_pool_does_not_grow() -> None:
    async def run() -> None:
        async with scene_of(2) as scene:
            for n in range(8):
                scene.submit(str(n), "pid")
            used = {await scene.value(str(n)) for n in range(8)}
            assert 1 <= len(used) <= 2
            assert used <= set(scene.pool.pids())

    asyncio.run(run())


def test_a_process_that_dies_ends_its_job_and_is_replaced() -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("0", "pid")
            first = await scene.value("0")
            for ticket, task, args, text in (
                ("segfault", "segfault", (), "killed by SIGSEGV"),
                ("exit", "exit_at_once", (3,), "exit status 3"),
                ("kill", "kill_itself", (), "killed by SIGKILL"),
            ):
                scene.submit(ticket, task, *args)
                assert text in await scene.fault(ticket)
            scene.submit("1", "pid")
            assert await scene.value("1") != first
            assert len(scene.pool.pids()) == 1

    asyncio.run(run())


def test_a_worn_process_is_replaced_between_jobs() -> None:
    async def run() -> None:
        async with scene_of(1, max_jobs=2) as scene:
            for n in range(6):
                scene.submit(str(n), "pid")
            used = [await scene.value(str(n)) for n in range(6)]
            assert [used[0], used[2], used[4]] == [used[1], used[3], used[5]]
            assert len(set(used)) == 3

    asyncio.run(run())


def test_a_job_over_its_time_limit_is_stopped() -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("spin", "spin", limits=TaskLimits(time=0.2))
            assert "longer than its time limit of 0.2 s" in await scene.fault("spin")
            scene.submit("next", "add", 1)
            assert await scene.value("next") == 1

    asyncio.run(run())


@pytest.mark.parametrize("task", ["hold_the_lock", "swallow"])
def test_a_cancelled_job_ends_whatever_its_task_does(task: str) -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("stuck", task)
            await scene.heard()
            (stuck,) = scene.pool.pids()
            scene.jobs.contexts["stuck"].stop()
            assert await scene.end("stuck") == Answer()
            scene.submit("next", "pid")
            assert await scene.value("next") != stuck

    asyncio.run(run())


def test_a_stopped_job_takes_along_what_it_started(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("parent", "starts_a_child", str(tmp_path / "pid"))
            await scene.heard()
            grandchild = int((tmp_path / "pid").read_text())
            scene.jobs.contexts["parent"].stop()
            await scene.end("parent")
            await until(lambda: not is_running(grandchild))

    asyncio.run(run())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 (the kernel tells nobody)
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_withdrawn_job_does_not_run() -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("0", "swallow")
            await scene.heard()
            scene.submit("1", "exit_at_once", 1)
            assert scene.jobs.contexts["1"].withdraw()
            scene.submit("2", "add", 1)
            scene.jobs.contexts["0"].stop()
            assert await scene.value("2") == 1
            assert not scene.jobs.ends["1"].done()

    asyncio.run(run())


def test_input_and_forwards_pass() -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("asks", "says")
            said = [await scene.heard() for _ in range(3)]
            verb, (request, question) = said[-1]
            assert (verb, question) == ("ask_input", "proceed?")
            scene.jobs.contexts["asks"].give(request, "yes")
            assert await scene.value("asks") == "yes"
            scene.submit("passes", "passes_on", "other")
            handover = await scene.end("passes")
            assert (handover.service, handover.call.args) == ("other", (40,))

    asyncio.run(run())


def test_a_lost_fork_server_fails_its_jobs_and_is_started_again() -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("0", "swallow")
            await scene.heard()
            server = scene.pool._server._process
            assert server is not None
            os.kill(server.pid, signal.SIGKILL)
            assert "killed by SIGKILL" in await scene.fault("0")
            scene.submit("1", "add", 1)
            assert await scene.value("1") == 1

    asyncio.run(run())


def test_an_idle_process_that_dies_is_replaced_when_a_job_needs_it() -> None:
    async def run() -> None:
        async with scene_of(1) as scene:
            scene.submit("0", "pid")
            idle = await scene.value("0")
            os.kill(idle, signal.SIGKILL)
            await until(lambda: not scene.pool.pids())
            scene.submit("1", "pid")
            assert await scene.value("1") != idle

    asyncio.run(run())


def test_the_pool_of_a_worker_that_got_its_first_process_task_late_opens_then() -> None:
    async def run() -> None:
        jobs = Jobs()
        scene = Scene(ProcessPool(jobs, 1), jobs)
        scene.submit("0", "add", 1)
        assert await scene.value("0") == 1
        await scene.pool.close()

    asyncio.run(run())


def test_closing_ends_every_process() -> None:
    async def run() -> None:
        async with scene_of(2) as scene:
            scene.submit("busy", "swallow")
            await scene.heard()
            scene.submit("idle", "add", 1)
            await scene.value("idle")
            pids = scene.pool.pids()
            assert len(pids) == 2
        assert not any(is_running(pid) for pid in pids)

    asyncio.run(run())
