"""Where the jobs of a worker run: threads, the event loop of async tasks, task processes.

Management calls and downloads of files run in threads, whatever the isolation of the task.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

import structlog

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.value import value
from dragoman.sdk.async_tasks import AsyncTasks
from dragoman.sdk.context import JobContext
from dragoman.sdk.file_arguments import Fetcher, FetchFailed, has_files
from dragoman.sdk.isolation import Isolation, check_limits, isolation_of
from dragoman.sdk.lifespan import Lifespan
from dragoman.sdk.manage import Management
from dragoman.sdk.process_pool import ProcessJob, ProcessPool
from dragoman.sdk.running_jobs import RunningJobs
from dragoman.sdk.task_reference import TaskReference, refer
from dragoman.sdk.task_results import ForwardRequested
from dragoman.sdk.tasks import Task, Tasks, fault_of, perform_async
from dragoman.sdk.thread_pool import ThreadPool

log = structlog.get_logger("dragoman.worker")
#: Seconds that a lifespan has to end. A task that blocks the event loop would hold it up for ever.
_LEAVE_WAIT: Final = 30.0


@value
class ExecutorOptions:
    """How a worker runs its jobs."""

    concurrency: int
    #: Where tasks run that do not say it themselves; None: async functions on the event loop,
    #: others in threads.
    isolation: Isolation | None = None
    #: Maximum task processes; None: as many as `concurrency`.
    processes: int | None = None
    #: Jobs after which a task process is replaced; None: never.
    max_jobs_per_process: int | None = None


@value
class _Place:
    """Where a task runs."""

    task: Task
    kind: Isolation
    #: How a process finds it, if it runs in one.
    reference: TaskReference | None


class Executors:
    """Runs each job where its task says. `open` and `submit` are called in the worker's loop."""

    def __init__(
        self,
        name: str,
        options: ExecutorOptions,
        tasks: Tasks,
        management: Management,
        files: Fetcher,
        lifespan: Lifespan,
        in_loop: Callable[[Callable[[], None]], None],
    ) -> None:
        self._name = f"dragoman {name}"
        self._options = options
        self._tasks = tasks
        self._management = management
        self._files = files
        self._lifespan = lifespan
        self._in_loop = in_loop
        self._running: RunningJobs | None = None
        self._threads: ThreadPool | None = None
        self._async: AsyncTasks | None = None
        self._processes: ProcessPool | None = None
        #: By the identity of the task, which the place keeps alive.
        self._places: dict[int, _Place] = {}

    def check(self) -> None:
        """Raise ValueError if a task cannot run where it should."""
        for task in self._tasks.all():
            self._place(task)

    def _place(self, task: Task) -> "_Place":
        """Return where a task runs. Raises ValueError if it cannot run there."""
        found = self._places.get(id(task))
        if found is None:
            wanted = task.isolation or self._options.isolation
            kind = isolation_of(task.function, wanted, task.name)
            check_limits(task.limits, kind, task.name)
            found = _Place(task, kind, refer(task, self._lifespan) if kind == "process" else None)
            self._places[id(task)] = found
        return found

    async def open(self, running: RunningJobs) -> None:
        """Start the threads, and what the isolation of the tasks needs."""
        self._running = running
        self._threads = ThreadPool(self._options.concurrency, self._name)
        self._processes = ProcessPool(
            running,
            self._options.processes or self._options.concurrency,
            max_jobs=self._options.max_jobs_per_process,
            takes_output=running.takes_output,
        )
        kinds = {self._place(task).kind for task in self._tasks.all()}
        if "process" in kinds:
            await self._processes.open()
        if kinds - {"process"} and self._lifespan.function is not None:
            await self._in_task_loop(self._lifespan.enter, None)

    async def _in_task_loop(
        self, work: Callable[[], Coroutine[object, None, None]], at_most: float | None
    ) -> None:
        """Run a coroutine where async tasks run, so that they share what it opens."""
        await asyncio.to_thread(lambda: self._async_tasks().run(work(), at_most))

    def _async_tasks(self) -> AsyncTasks:
        if self._async is None:
            self._async = AsyncTasks(self._options.concurrency, self._name)
        return self._async

    async def close(self) -> None:
        """End threads after their jobs; end what can be stopped now."""
        if self._threads is not None:
            self._threads.close()
        if self._lifespan.is_entered:
            await self._leave_lifespan()
        if self._async is not None:
            self._async.close()
        if self._processes is not None:
            await self._processes.close()

    async def _leave_lifespan(self) -> None:
        try:
            await self._in_task_loop(self._lifespan.leave, _LEAVE_WAIT)
        except Exception as error:
            log.warning("the lifespan was not left in order", worker=self._name, reason=repr(error))

    def isolations(self) -> dict[str, str]:
        """Return where each task runs. Thread-safe."""
        return {task.name: self._place(task).kind for task in self._tasks.all()}

    def pids(self) -> list[int]:
        """Return the process ids of the task processes. Thread-safe."""
        return self._processes.pids() if self._processes is not None else []

    def lend(self, job: JobContext) -> AbstractContextManager[object]:
        """Let another job have the place of this one, which waits inside the block."""
        if job.is_on_event_loop and self._async is not None:
            return self._async.lend(job.ticket)
        assert self._threads is not None
        return self._threads.lend()

    # --- jobs ---------------------------------------------------------------------------------

    def submit(self, work: Assigned) -> None:
        """Take a job and run it where its task says."""
        assert self._running is not None
        assert self._threads is not None
        context = self._running.take(work)
        context.dependencies = self._lifespan.values
        context.middleware = self._lifespan.middleware
        place = self._place_of_call(work)
        if place is None or place.kind == "thread":
            self._threads.submit(partial(self._running.execute, work, context))
        elif has_files(work.call):
            self._threads.submit(partial(self._fetch_first, place, work, context))
        else:
            self._start(place, work, context)

    def _place_of_call(self, work: Assigned) -> "_Place | None":
        """Return where a call runs; None for management calls and unknown tasks."""
        task = self._tasks.find(work.call)
        if task is None or self._management.is_management_call(work, True):
            return None
        return self._place(task)

    def _start(self, place: "_Place", work: Assigned, context: JobContext) -> None:
        assert self._running is not None
        assert self._processes is not None
        task = place.task
        if place.reference is not None:
            self._processes.submit(ProcessJob(work, context, place.reference, task.limits))
            return
        run = partial(_run_async, task, work.call, context)
        self._async_tasks().submit(partial(self._running.execute_async, work, context, run))

    def _fetch_first(self, place: "_Place", work: Assigned, context: JobContext) -> None:
        """Fetch the files of a call in this thread, then start its task elsewhere."""
        assert self._running is not None
        try:
            fetched = with_call(work, self._files.resolved(work.call))
            self._in_loop(partial(self._start, place, fetched, context))
        except FetchFailed as error:
            answer = Answer(fault=Fault(FaultCode.TASK_FAILED, str(error)))
            self._in_loop(partial(self._running.finish, work.ticket, answer))

    def store_first(self, ticket: str, answer: Answer) -> bool:
        """Whether a result is stored first, in a thread; its job ends with the reference then."""
        if not self._files.is_large(answer):
            return False
        assert self._threads is not None
        self._threads.submit(partial(self._store, ticket, answer))
        return True

    def _store(self, ticket: str, answer: Answer) -> None:
        assert self._running is not None
        try:
            answer = self._files.stored(answer)
        except FetchFailed as error:
            # The result itself may still fit into a message.
            log.warning("the result is not stored", worker=self._name, reason=str(error))
        self._in_loop(partial(self._running.end, ticket, answer))

    def run_in_thread(self, work: Assigned, context: JobContext) -> Answer:
        """Run a call in this thread."""
        if self._management.is_management_call(work, self._tasks.find(work.call) is not None):
            context.is_management = True
            return self._management.run(work.call)
        try:
            call = self._files.resolved(work.call)
        except FetchFailed as error:
            return Answer(fault=Fault(FaultCode.TASK_FAILED, str(error)))
        return self._tasks.run(call, context)


async def _run_async(task: Task, call: Call, context: JobContext) -> Answer:
    """Run a coroutine function; whatever it raises becomes a fault, except a cancel."""
    try:
        return await perform_async(task, call, context)
    except ForwardRequested:
        raise
    except BaseException as error:
        # Also SystemExit: it would end the event loop of all async tasks.
        if context.is_cancelled:
            raise
        return fault_of(error, task, context)


def with_call(work: Assigned, call: Call) -> Assigned:
    """Return a job with another call."""
    return Assigned(
        work.ticket, work.job, call, work.service, work.client, work.timeout, work.resources
    )
