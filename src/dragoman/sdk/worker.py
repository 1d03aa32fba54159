"""The worker: run plain functions as a service, over any dialect.

SIGTERM, or `stop`, drains the worker: it takes no new jobs, finishes the running ones, and
deregisters. A second SIGTERM, or the end of `drain` seconds, hands the running jobs back. This
module has the worker's public interface, start and stop. `membership` registers it, `running_jobs`
runs its jobs; `beat_relay` (with CURVE, `heartbeat_proxy`) sends its heartbeats from a process of
its own.
"""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

import structlog

from dragoman.dialects.peer_sides import Assigned, InputGiven, Stop, Unsupported, WorkerNotice
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.labels import ANNOUNCED, PREFETCH
from dragoman.model.retry import LABEL as RETRY_LABEL
from dragoman.model.retry import Retry, label_text
from dragoman.model.target import write_names
from dragoman.sdk.cache import LARGEST_CACHE
from dragoman.sdk.child_jobs import ChildClient, Children
from dragoman.sdk.client import new_id
from dragoman.sdk.context import JobContext
from dragoman.sdk.credentials import CredentialsLike, find_credentials
from dragoman.sdk.errors import Refused, Unreachable
from dragoman.sdk.file_arguments import Fetcher, FetchFailed
from dragoman.sdk.file_arguments import files_url as default_files_url
from dragoman.sdk.manage import LABEL, Management, OnResources
from dragoman.sdk.membership import Membership
from dragoman.sdk.peer_factories import WorkerSpec, peer_factory_for
from dragoman.sdk.running_jobs import RunningJobs
from dragoman.sdk.tasks import Tasks, make_task
from dragoman.sdk.thread_pool import ThreadPool
from dragoman.sdk.url import WORKER_PORTS, parse_url
from dragoman.transports.base import Transport

log = structlog.get_logger("dragoman.worker")
#: Seconds between two looks for a refusal while `wait_ready` waits.
_CHECK_EVERY = 0.2
#: A key that was added just now is accepted within a second or so; NATS reloads its users.
_REFUSAL_GRACE = 3.0
#: Jobs that may wait for each job that runs: so one turn of the loops carries many of them.
_PREFETCH_EACH = 8
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
    ) -> None:
        """Prepare.

        `concurrency` is how many jobs run at a time. `prefetch` is how many more may wait here, if
        jobs are short (None: eight for each that runs; 0: none).
        """
        self.endpoint = parse_url(url, WORKER_PORTS)
        self.services = (service, *more_services)
        self.name = name or f"{service}-{socket.gethostname()}-{os.getpid()}-{os.urandom(2).hex()}"
        self.concurrency = concurrency
        self.tasks = Tasks()
        found = find_credentials(credentials)
        self._factory = peer_factory_for(self.endpoint.dialect, found)
        self._labels = {
            **LABEL,
            **(labels or {}),
            **_resources_label(resources),
            **_prefetch_label(concurrency, prefetch),
        }
        self._own_process = own_process_beats
        self._loop: asyncio.AbstractEventLoop | None = None
        self._declare()
        client_url = default_files_url(self.endpoint) if files_url is None else files_url
        self._children = ChildClient(self.endpoint, client_url, self.name, found)
        #: Fetches the files of `nf://` arguments; from the same broker unless `files_url` is given.
        self._files = Fetcher(
            client_url,
            self.name,
            files_cache,
            found,
            files_cache_bytes,
        )
        #: The management tasks, which it answers beside its own.
        self.management = Management(self)
        self._pool: ThreadPool | None = None
        self._thread: threading.Thread | None = None
        #: Set while the broker has this worker registered.
        self._is_ready = threading.Event()
        #: What threads have for the loop.
        self._handed_over: deque[Callable[[], None]] = deque()
        self._has_wake_up = False
        self._is_draining = False
        #: Seconds after which a draining worker hands its running jobs back.
        self._drain = drain
        self._stop: asyncio.Event | None = None

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
            self._note_registered,
        )
        self._running = RunningJobs(
            self.name,
            self._side,
            send=self._membership.send,
            run=self._run_task,
            in_loop=self._in_loop,
            later=self._later,
            ended=self._check_drained,
            children=self._children_of,
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
    ) -> Callable[[F], F]: ...

    def task(
        self,
        function: F | None = None,
        *,
        name: str | None = None,
        retries: int | Retry = 0,
        retry_on: tuple[type[BaseException], ...] = (),
    ) -> Any:
        """Offer a function as a task: `@worker.task` or `@worker.task(name="...")`.

        Args:
            function: The task.
            name: Its name, if it is another than the function's.
            retries: How often the broker runs it again after a failure, unless the call says so.
            retry_on: Exceptions after which a retry may help; after others the task has failed.

        """
        if function is None:
            return partial(self.task, name=name, retries=retries, retry_on=retry_on)
        task = make_task(function, name, retry_on)
        self.tasks.add(task)
        if retries:
            self._announce_retries(task.name, retries)
        return function

    def _announce_retries(self, task: str, retries: int | Retry) -> None:
        """Declare the retries of a task: the broker keeps them, so they outlive this worker."""
        if self._loop is not None:
            raise RuntimeError(f"task {task}: declare its retries before the worker starts")
        policy = retries if isinstance(retries, Retry) else Retry(retries)
        self._labels[RETRY_LABEL + task] = label_text(policy)
        self._declare()

    def fallback(self, function: F) -> F:
        """Offer a function for every call without a known task name, such as raw bytes."""
        self.tasks.fallback = make_task(function)
        return function

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
        return self._membership.silent_for(self._loop.time()) if self._loop else 0.0

    @property
    def succeeded(self) -> int:
        """Jobs that succeeded since the start."""
        return self._running.succeeded

    @property
    def failed(self) -> int:
        """Jobs that failed since the start."""
        return self._running.failed

    def task_names(self) -> list[str]:
        """Return the names of its tasks."""
        return self.tasks.names()

    def describe_tasks(self) -> list[dict[str, Any]]:
        """Return its tasks: name, documentation, and the JSON schema of each parameter."""
        return self.tasks.describe()

    def go_down(self) -> None:
        """Drain: finish the running jobs, then stop."""
        if not self._is_draining:
            self._in_loop(self._drain_or_hand_back)

    def join_again(self) -> None:
        """Reconnect and register again, after the answer to this call was sent."""

        def later() -> None:
            assert self._loop is not None
            self._loop.call_later(0.1, self._membership.renew, "asked to join again")

        self._in_loop(later)

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
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self.serve()), name=f"dragoman {self.name}", daemon=True
        )
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
        started = time.monotonic()
        deadline = started + timeout
        while not self._is_ready.wait(min(_CHECK_EVERY, max(0.0, deadline - time.monotonic()))):
            refusal = self._membership.refusal
            if refusal and time.monotonic() - started >= min(_REFUSAL_GRACE, timeout):
                raise Refused(f"{self.endpoint}: {refusal}")
            is_dead = self._thread is not None and not self._thread.is_alive()
            if is_dead or time.monotonic() >= deadline:
                raise Unreachable(self._not_registered(timeout))

    def _not_registered(self, timeout: float) -> str:
        hint = self._membership.connection_hint or "is `dragoman up` running there?"
        return (
            f"{self.endpoint}: the broker did not register worker {self.name} "
            f"within {timeout:g} s; {hint}"
        )

    @property
    def is_registered(self) -> bool:
        """Whether the broker has confirmed the registration."""
        return self._is_ready.is_set()

    @property
    def is_draining(self) -> bool:
        """Whether it finishes its jobs and takes no more."""
        return self._is_draining

    def _note_registered(self, is_registered: bool) -> None:
        (self._is_ready.set if is_registered else self._is_ready.clear)()

    def stop(self, timeout: float = 30.0) -> None:
        """Drain and end the background thread. After `timeout`, hand the running jobs back."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._drain_or_hand_back)
            thread.join(timeout)
            if thread.is_alive():
                loop.call_soon_threadsafe(self._drain_or_hand_back)
                thread.join(5.0)

    def __enter__(self) -> "Worker":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def serve(self) -> None:
        """Serve until `stop`, a signal or a `shutdown` management call."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._pool = ThreadPool(self.concurrency, f"dragoman {self.name}")
        try:
            async with self._membership.joined():
                await self._stop.wait()
        finally:
            self._pool.close()
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

    def _in_loop(self, work: Callable[[], None]) -> None:
        """Have the loop run `work`; one wake-up serves all that wait."""
        assert self._loop is not None
        self._handed_over.append(work)
        if not self._has_wake_up:
            self._has_wake_up = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._run_handed_over)

    def _run_handed_over(self) -> None:
        # First: what is handed over from now on wakes the loop again.
        self._has_wake_up = False
        while self._handed_over:
            self._handed_over.popleft()()

    def _later(self, seconds: float, work: Callable[[], None]) -> object:
        assert self._loop is not None
        return self._loop.call_later(seconds, work)

    # --- notices of the broker ----------------------------------------------------------------

    def _handle(self, notice: WorkerNotice) -> None:
        self._handlers[type(notice)](notice)

    def _assigned(self, work: Assigned) -> None:
        assert self._pool is not None
        if self._is_draining:
            self._membership.send(self._side.hand_back(work.ticket))
        else:
            self._pool.submit(self._running.take(work))

    def _children_of(self, job: JobContext) -> Children:
        assert self._pool is not None
        return Children(job, self._children, self._pool.lend)

    def _run_task(self, work: Assigned, context: JobContext) -> Answer:
        """Run a call in a thread of the pool."""
        if self.management.is_management_call(work, self.tasks.find(work.call) is not None):
            context.is_management = True
            return self.management.run(work.call)
        try:
            call = self._files.resolved(work.call)
        except FetchFailed as error:
            return Answer(fault=Fault(FaultCode.TASK_FAILED, str(error)))
        return self.tasks.run(call, context)

    # --- publishing ---------------------------------------------------------------------------

    def publish(self, topic: str, event: Any) -> None:
        """Publish an event to all subscribers. Thread-safe.

        If the dialect cannot publish, the worker calls the broker's management instead.
        """

        def send() -> None:
            assert self._loop is not None
            try:
                self._membership.send(self._side.publish(topic, event))
            except Unsupported:
                self._loop.run_in_executor(None, self._publish_by_call, topic, event)

        self._in_loop(send)

    def _publish_by_call(self, topic: str, event: Any) -> None:
        try:
            self._files.publish(topic, event)
        except FetchFailed as error:
            log.warning("event not published", worker=self.name, topic=topic, reason=str(error))


def _resources_label(resources: Sequence[str]) -> dict[str, str]:
    """Return the label that announces a worker's own resources."""
    return {ANNOUNCED: write_names(resources)} if resources else {}


def _prefetch_label(concurrency: int, prefetch: int | None) -> dict[str, str]:
    """Return the label that lets the broker send jobs before a thread is free."""
    wanted = _PREFETCH_EACH * concurrency if prefetch is None else prefetch
    return {PREFETCH: str(wanted)} if wanted > 0 else {}
