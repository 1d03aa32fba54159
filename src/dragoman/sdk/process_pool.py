"""The task processes of a worker: at most `size`, each with one job at a time.

A process is started when a job needs it. One that dies, was stopped, or has run its share of jobs
is replaced at once, so the pool keeps its size. Everything here runs in the worker's loop.
"""

import asyncio
from collections import deque
from typing import Final

import structlog

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.value import value
from dragoman.sdk.context import JobContext
from dragoman.sdk.fork_client import ForkClient
from dragoman.sdk.isolation import TaskLimits
from dragoman.sdk.pooled_process import STOP_GRACE, JobEnds, PooledProcess, describe_death
from dragoman.sdk.task_process import TaskOrder
from dragoman.sdk.task_reference import TaskReference

log = structlog.get_logger("dragoman.worker")

#: The wait status of a process that was killed by SIGKILL.
_KILLED: Final = 9


@value
class ProcessJob:
    """A job for a process."""

    work: Assigned
    context: JobContext
    task: TaskReference
    limits: TaskLimits


class ProcessPool:
    """Runs jobs in processes."""

    def __init__(
        self,
        running: JobEnds,
        size: int,
        *,
        max_jobs: int | None = None,
        takes_output: bool = False,
    ) -> None:
        self._running = running
        self._size = size
        self._max_jobs = max_jobs
        self._takes_output = takes_output
        self._server = ForkClient(self._exited, self._server_lost)
        self._waiting: deque[ProcessJob] = deque()
        self._idle: list[PooledProcess] = []
        #: Every process that takes jobs, idle or busy.
        self._processes: set[PooledProcess] = set()
        #: Every process that runs, by its id: also those that end.
        self._by_pid: dict[int, PooledProcess] = {}
        self._is_closing = False
        self._opening: asyncio.Task[None] | None = None
        self._all_ended = asyncio.Event()

    async def open(self) -> None:
        """Start the fork server."""
        await self._server.open()

    def pids(self) -> list[int]:
        """Return the process ids of the pool. Thread-safe."""
        return sorted(one.pid for one in list(self._processes) if one.pid is not None)

    def submit(self, job: ProcessJob) -> None:
        """Run a job when a process is free."""
        self._waiting.append(job)
        if not self._server.is_open and self._opening is None:
            # The first process task was added while the worker served.
            self._opening = asyncio.get_running_loop().create_task(self._open_again())
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and (process := self._free_process()) is not None:
            job = self._waiting.popleft()
            if job.context.start():
                order = TaskOrder(job.work, job.task, job.limits.memory, self._takes_output)
                process.run(order, job.context, job.limits.time)
            else:
                self._idle.append(process)

    def _free_process(self) -> PooledProcess | None:
        if self._idle:
            return self._idle.pop()
        if self._is_closing or len(self._processes) >= self._size:
            return None
        return self._fork()

    def _fork(self) -> PooledProcess | None:
        """Start a process; None while the fork server starts again."""
        if not self._server.is_open:
            return None
        process = PooledProcess(self._running, self._freed)

        def started(pid: int) -> None:
            self._by_pid[pid] = process
            process.started(pid)

        process.connect(self._server.fork(started))
        self._processes.add(process)
        return process

    def _freed(self, process: PooledProcess, is_usable: bool) -> None:
        """Give a process that has ended its job the next one, or replace it."""
        is_worn = self._max_jobs is not None and process.jobs >= self._max_jobs
        if is_usable and not is_worn and not self._is_closing:
            self._idle.append(process)
        else:
            self._retire(process, is_usable)
        self._start_waiting()

    def _retire(self, process: PooledProcess, is_usable: bool) -> None:
        self._processes.discard(process)
        if is_usable:
            process.end()
        else:
            process.kill()
        if not self._is_closing and (fresh := self._fork()) is not None:
            self._idle.append(fresh)

    def _exited(self, pid: int, status: int) -> None:
        process = self._by_pid.pop(pid, None)
        if process is None:
            return
        if process in self._idle:
            # Not replaced until a job needs it: a process that cannot live must not be forked
            # again and again.
            self._idle.remove(process)
            self._processes.discard(process)
            log.warning("an idle task process ended", pid=pid, reason=describe_death(status))
        process.exited(status)
        if not self._by_pid:
            self._all_ended.set()
        self._start_waiting()

    def _server_lost(self) -> None:
        """Start the server again. The kernel has killed its processes."""
        log.warning("the fork server ended; it is started again", running=len(self._processes))
        for process in list(self._processes):
            process.kill()
        lost, self._by_pid, self._idle = list(self._processes), {}, []
        self._processes.clear()
        if not self._is_closing:
            self._opening = asyncio.get_running_loop().create_task(self._open_again())
        for process in lost:
            process.exited(_KILLED)

    async def _open_again(self) -> None:
        await self._server.close()
        await self._server.open()
        self._opening = None
        self._start_waiting()

    async def close(self) -> None:
        """End every process: idle ones by themselves, busy ones by SIGKILL."""
        self._is_closing = True
        self._idle.clear()
        for process in list(self._processes):
            if process.is_busy:
                process.kill()
            else:
                process.end()
        if self._by_pid:
            self._all_ended.clear()
            try:
                async with asyncio.timeout(STOP_GRACE + 1.0):
                    await self._all_ended.wait()
            except TimeoutError:
                log.warning("task processes did not end", pids=list(self._by_pid))
        await self._server.close()
