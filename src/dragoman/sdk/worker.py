"""The worker: run plain functions as a service, over any dialect.

SIGTERM, or `stop`, drains the worker: it takes no new jobs, finishes the running ones, and
deregisters. A second SIGTERM, or the end of `drain` seconds, hands the running jobs back. This
module has the worker's public interface, start and stop. `membership` registers it, `executors`
and `running_jobs` run its jobs; `beat_relay` (with CURVE, `heartbeat_proxy`) sends its heartbeats
from a process of its own.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

import structlog

from dragoman.dialects.peer_sides import Assigned, InputGiven, Stop, Unsupported, WorkerNotice
from dragoman.model.retry import LABEL as RETRY_LABEL
from dragoman.model.retry import Retry, label_text
from dragoman.sdk.cache import LARGEST_CACHE
from dragoman.sdk.child_jobs import ChildClient, Children
from dragoman.sdk.client import new_id
from dragoman.sdk.compositions import WORKFLOW_TASK
from dragoman.sdk.context import JobContext
from dragoman.sdk.credentials import CredentialsLike, find_credentials
from dragoman.sdk.executors import ExecutorOptions, Executors
from dragoman.sdk.file_arguments import Fetcher, FetchFailed
from dragoman.sdk.file_arguments import files_url as default_files_url
from dragoman.sdk.isolation import (
    Isolation,
    TaskLimits,
    check_limits,
    isolation_of,
    parse_size,
    refuse_to_serve_in_a_task_process,
)
from dragoman.sdk.large_values import LargeValues
from dragoman.sdk.lifespan import Lifespan, LifespanFunction
from dragoman.sdk.loop_inbox import LoopInbox
from dragoman.sdk.manage import Management, OnResources
from dragoman.sdk.membership import Membership
from dragoman.sdk.middleware import Middleware
from dragoman.sdk.peer_factories import WorkerSpec, peer_factory_for
from dragoman.sdk.running_jobs import RunningJobs
from dragoman.sdk.tasks import Tasks, make_task
from dragoman.sdk.url import WORKER_PORTS, parse_url
from dragoman.sdk.worker_labels import worker_labels
from dragoman.sdk.worker_thread import WorkerThread
from dragoman.sdk.workflow_runner import workflow_task
from dragoman.transports.base import Transport

log = structlog.get_logger("dragoman.worker")
F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """Offers tasks under a service name. `run` serves until SIGTERM or SIGINT."""

    def __init__(
        self,
        url: str,
        service: str,
        *more_services: str,
        name: str | None = None,
        concurrency: int = 8,
        labels: Mapping[str, str] | None = None,
        resources: Sequence[str] = (),
        own_process_beats: bool = True,
        files_url: str | None = None,
        files_cache: Path | None = None,
        files_cache_bytes: int = LARGEST_CACHE,
        credentials: CredentialsLike = None,
        drain: float = 60.0,
        prefetch: int | None = None,
        isolation: Isolation | None = None,
        processes: int | None = None,
        max_jobs_per_process: int | None = None,
        lifespan: LifespanFunction | None = None,
        provides: Sequence[object] = (),
        middleware: Sequence[Middleware] = (),
        large_values: LargeValues | None = None,
        log_lines: bool = False,
    ) -> None:
        """Prepare.

        `concurrency` is how many jobs run at a time. `prefetch` is how many more may wait here, if
        jobs are short (None: eight for each that runs; 0: none). `isolation` is where tasks run
        that do not say it: thread, process or async (None: `async def` functions on one event
        loop, others in threads). `processes` is the maximum of task processes (None: as many as
        `concurrency`); each is replaced after `max_jobs_per_process` jobs (None: never).
        `lifespan` returns a context manager, plain or async, that is entered before the first job
        and left after the last one. Tasks get its value, and each of `provides`, by the type of a
        parameter. `middleware` runs around each job, in this order. `large_values` is where large
        results are stored, so that their jobs carry only references. `log_lines` sends what a task
        prints to its job, as progress reports.
        """
        self.endpoint = parse_url(url, WORKER_PORTS)
        self.services = (service, *more_services)
        self.name = name or f"{service}-{socket.gethostname()}-{os.getpid()}-{os.urandom(2).hex()}"
        self.concurrency = concurrency
        self.tasks = Tasks()
        found = find_credentials(credentials)
        self._factory = peer_factory_for(self.endpoint.dialect, found)
        self._labels = worker_labels(labels, resources, concurrency, prefetch)
        self._own_process = own_process_beats
        self._inbox = LoopInbox()
        client_url = default_files_url(self.endpoint) if files_url is None else files_url
        self._children = ChildClient(self.endpoint, client_url, self.name, found)
        #: Fetches the files of `nf://` arguments; from the same broker unless `files_url` is given.
        self._files = Fetcher(
            client_url,
            self.name,
            files_cache,
            found,
            files_cache_bytes,
            large_values,
        )
        #: The management tasks, which it answers beside its own.
        self.management = Management(self)
        self._lifespan = Lifespan(lifespan, provides, middleware)
        self._options = ExecutorOptions(concurrency, isolation, processes, max_jobs_per_process)
        self._executors = Executors(
            self.name,
            self._options,
            self.tasks,
            self.management,
            self._files,
            self._lifespan,
            self._inbox.put,
        )
        self._thread = WorkerThread(self.name, self.serve, self._refusal, self._not_registered)
        self._is_draining = False
        #: Seconds after which a draining worker hands its running jobs back.
        self._drain = drain
        self._log_lines = log_lines
        self._stop: asyncio.Event | None = None
        self._declare()

    def _declare(self) -> None:
        """Make the side and what depends on it: the side writes down what the worker declares."""
        self._spec = WorkerSpec(
            self.name, self.services, self.concurrency, dict(self._labels), self.endpoint.options
        )
        self._side = self._factory.worker_side(self._spec, new_id)
        self._membership = Membership(
            self.name,
            self._side,
            self._make_transport,
            self._handle,
            self._is_worth_joining,
            self._thread.note_registered,
        )
        self._running = RunningJobs(
            self.name,
            self._side,
            send=self._membership.send,
            run=self._executors.run_in_thread,
            in_loop=self._inbox.put,
            later=self._inbox.later,
            ended=self._check_drained,
            children=self._children_of,
            store=self._executors.store_first,
            log_lines=self._log_lines,
        )
        self._handlers: dict[type[WorkerNotice], Callable[[Any], None]] = {
            Assigned: self._assigned,
            Stop: self._running.stop,
            InputGiven: self._running.give,
        }

    # --- tasks --------------------------------------------------------------------------------

    @overload
    def task(self, function: F, *, name: str | None = None, retries: int | Retry = 0) -> F: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        retries: int | Retry = 0,
        retry_on: tuple[type[BaseException], ...] = (),
        isolation: Isolation | None = None,
        time_limit: float | None = None,
        memory_limit: int | str | None = None,
    ) -> Callable[[F], F]: ...

    def task(self, function: F | None = None, **options: Any) -> Any:
        """Offer a function as a task: `@worker.task` or `@worker.task(name="...")`.

        Args:
            function: The task.
            options: `name`, if it is another than the function's.
                `retries`: how often the broker runs it again after a failure, unless the call says
                so. `retry_on`: exceptions after which a retry may help; after others the task has
                failed. `isolation`: where it runs, thread, process or async. `time_limit`: seconds
                that a job may run (process, async). `memory_limit`: bytes, or a text such as
                `"512MB"`, that a job may add to its process.

        """
        if function is None:
            return partial(self._add_task, **options)
        return self._add_task(function, **options)

    def _add_task(
        self,
        function: F,
        *,
        name: str | None = None,
        retries: int | Retry = 0,
        retry_on: tuple[type[BaseException], ...] = (),
        isolation: Isolation | None = None,
        time_limit: float | None = None,
        memory_limit: int | str | None = None,
    ) -> F:
        limits = TaskLimits(time_limit, parse_size(memory_limit))
        task = make_task(function, name, retry_on, isolation, limits, self._lifespan.types)
        wanted = isolation_of(function, isolation or self._options.isolation, task.name)
        check_limits(limits, wanted, task.name)
        self.tasks.add(task)
        if retries if isinstance(retries, int) else retries.times:
            self._announce_retries(task.name, retries)
        return function

    def _announce_retries(self, task: str, retries: int | Retry) -> None:
        """Declare the retries of a task: the broker keeps them, so they outlive this worker."""
        if self._inbox.loop is not None:
            raise RuntimeError(f"task {task}: declare its retries before the worker starts")
        policy = retries if isinstance(retries, Retry) else Retry(retries)
        self._labels[RETRY_LABEL + task] = label_text(policy)
        self._declare()

    def fallback(self, function: F) -> F:
        """Offer a function for every call without a known task name, such as raw bytes."""
        self.tasks.fallback = make_task(function, types=self._lifespan.types)
        return function

    def offer_workflows(self, *services: str) -> None:
        """Run plans of clients (`dragoman.Chain`, `Group`, `Map`), each step as a child job.

        Steps may use these services; without any, this worker's own. They run with this worker's
        credentials.
        """
        run = workflow_task(frozenset(services or self.services))
        self.task(name=WORKFLOW_TASK, isolation="async")(run)

    def on_resources(self, function: OnResources) -> OnResources:
        """Call a function with the resources that the worker gained and lost."""
        self.management.on_resources = function
        return function

    # --- used by management -------------------------------------------------------------------

    def running(self) -> list[str]:
        """Return the client of each running job."""
        return self._running.clients()

    def longest_running(self) -> float:
        """Return how many seconds the oldest running job has run."""
        return self._running.longest(time.monotonic())

    def silent_for(self) -> float:
        """Return how many seconds the broker has been silent."""
        loop = self._inbox.loop
        return self._membership.silent_for(loop.time()) if loop else 0.0

    @property
    def succeeded(self) -> int:
        """Jobs that succeeded since the start."""
        return self._running.succeeded

    @property
    def failed(self) -> int:
        """Jobs that failed since the start."""
        return self._running.failed

    def isolations(self) -> dict[str, str]:
        """Return where each task runs: thread, process or async. Thread-safe."""
        return self._executors.isolations()

    def task_process_ids(self) -> list[int]:
        """Return the ids of its task processes. Thread-safe."""
        return self._executors.pids()

    def task_names(self) -> list[str]:
        """Return the names of its tasks."""
        return self.tasks.names()

    def describe_tasks(self) -> list[dict[str, Any]]:
        """Return its tasks: name, documentation, and the JSON schema of each parameter."""
        return self.tasks.describe()

    def go_down(self) -> None:
        """Drain: finish the running jobs, then stop."""
        if not self._is_draining:
            self._inbox.put(self._drain_or_hand_back)

    def join_again(self) -> None:
        """Reconnect and register again, after the answer to this call was sent."""
        renew = partial(self._membership.renew, "asked to join again")
        self._inbox.put(partial(self._inbox.later, 0.1, renew))

    # --- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second signal hands the running jobs back."""
        asyncio.run(self.serve_until_signal())

    async def serve_until_signal(self) -> None:
        """Do what `run` does, on the running event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._drain_or_hand_back)
        await self.serve()

    def _drain_or_hand_back(self) -> None:
        """Drain at the first call; hand the running jobs back at the second."""
        if self._is_draining:
            self._running.hand_back_all()
        else:
            log.info("worker drains", worker=self.name, running=len(self._running))
            self._is_draining = True
            self._running.hand_back_waiting()
            asyncio.get_running_loop().call_later(self._drain, self._drain_or_hand_back)
        self._check_drained()

    def start(self, timeout: float = 30.0) -> "Worker":
        """Serve in a background thread; return when the broker has confirmed the registration.

        Raises as `wait_ready` does; the worker is stopped then.
        """
        refuse_to_serve_in_a_task_process()
        self._executors.check()
        self._thread.start()
        try:
            self.wait_ready(timeout)
        except BaseException:
            self.stop(timeout=0.0)
            raise
        return self

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Wait until the broker has confirmed the registration. Thread-safe.

        Raises `Refused` if the broker refuses the credentials, and `Unreachable` if
        it does not answer in time.
        """
        self._thread.wait_ready(timeout)

    def _refusal(self) -> str:
        refusal = self._membership.refusal
        return f"{self.endpoint}: {refusal}" if refusal else ""

    def _not_registered(self, timeout: float) -> str:
        hint = self._membership.connection_hint or "is `dragoman up` running there?"
        return (
            f"{self.endpoint}: the broker did not register worker {self.name} "
            f"within {timeout:g} s; {hint}"
        )

    @property
    def is_registered(self) -> bool:
        """Whether the broker has confirmed the registration."""
        return self._thread.is_ready.is_set()

    @property
    def is_draining(self) -> bool:
        """Whether it finishes its jobs and takes no more."""
        return self._is_draining

    def stop(self, timeout: float = 30.0) -> None:
        """Drain and end the background thread. After `timeout`, hand the running jobs back."""
        self._thread.stop(self._inbox.loop, self._drain_or_hand_back, timeout)

    def __enter__(self) -> "Worker":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def serve(self) -> None:
        """Serve until `stop`, a signal or a `shutdown` management call."""
        refuse_to_serve_in_a_task_process()
        self._executors.check()
        self._inbox.attach()
        self._stop = asyncio.Event()
        try:
            await self._executors.open(self._running)
            async with self._membership.joined():
                await self._stop.wait()
        finally:
            await self._executors.close()
            await asyncio.to_thread(self._files.close)
            await asyncio.to_thread(self._children.close)

    def _make_transport(self) -> Transport:
        return self._factory.worker_transport(self.endpoint, self._spec, self._own_process)

    def _is_worth_joining(self) -> bool:
        """Whether to register again after a reconnect.

        A draining worker with running jobs does: the broker takes results of registered workers.
        """
        return len(self._running) > 0 or not self._is_draining

    def _check_drained(self) -> None:
        if self._is_draining and not self._running and self._stop is not None:
            self._stop.set()

    # --- notices of the broker ----------------------------------------------------------------

    def _handle(self, notice: WorkerNotice) -> None:
        self._handlers[type(notice)](notice)

    def _assigned(self, work: Assigned) -> None:
        if self._is_draining:
            self._membership.send(self._side.hand_back(work.ticket))
        else:
            self._executors.submit(work)

    def _children_of(self, job: JobContext) -> Children:
        return Children(job, self._children, lambda: self._executors.lend(job))

    # --- publishing ---------------------------------------------------------------------------

    def publish(self, topic: str, event: object) -> None:
        """Publish an event to all subscribers. Thread-safe.

        If the dialect cannot publish, the worker calls the broker's management instead.
        """

        def send() -> None:
            try:
                self._membership.send(self._side.publish(topic, event))
            except Unsupported:
                loop = asyncio.get_running_loop()
                loop.run_in_executor(None, self._publish_by_call, topic, event)

        self._inbox.put(send)

    def _publish_by_call(self, topic: str, event: object) -> None:
        try:
            self._files.publish(topic, event)
        except FetchFailed as error:
            log.warning("event not published", worker=self.name, topic=topic, reason=str(error))
