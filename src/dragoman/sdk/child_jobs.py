"""Child jobs: a task calls other services, and a run of it after a lost worker repeats no step.

    async def report(job: JobContext, orders: list[int]) -> float:
        prices = [job.submit("shop", "price", order) for order in orders]
        return sum([await price.result() for price in prices])

Each child has a position: the order in which the task submits them, or the option `position`. The
child at a position is one job for all runs of the task, so a task must submit the same children in
the same order each time it runs with the same arguments.
"""

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from dragoman.dialects.registry import DIALECTS
from dragoman.model.content import Call
from dragoman.model.fault import FaultCode
from dragoman.model.parent import Parent, child_id, parent_members
from dragoman.model.retry import Retry
from dragoman.model.target import Target
from dragoman.model.trace import HEADER, TraceContext, read_trace, span_id
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.calls import CallOptions, arguments_of
from dragoman.sdk.credentials import CredentialsLike
from dragoman.sdk.errors import JobFailed
from dragoman.sdk.task_results import NotInDialect, TaskFailed
from dragoman.sdk.tracing import with_trace
from dragoman.sdk.url import Endpoint

T = TypeVar("T")
#: Seconds between two submissions of a child while the broker does not know its worker yet.
_AGAIN_AFTER: Final = 0.5
#: Such submissions before the child has failed: a worker registers again within a minute.
_MOST_TIMES: Final = 240


class ParentJob(Protocol):
    """What children need of the job that submits them."""

    @property
    def id(self) -> str:
        """The job's id."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The call's headers."""
        ...


class ChildClient:
    """The connection over which a worker submits children. Connects on first use."""

    def __init__(
        self, worker: Endpoint, url: str, name: str, credentials: CredentialsLike = None
    ) -> None:
        self._dialect = worker.dialect
        self._url = url
        self._name = f"{name}-children"
        self._credentials = credentials
        self._lock = threading.Lock()
        self._client: Client | None = None

    def connected(self) -> Client:
        """Return the client. Raises `NotInDialect` if this worker cannot have children."""
        if not DIALECTS[self._dialect].names_jobs:
            can = ", ".join(name for name, dialect in DIALECTS.items() if dialect.names_jobs)
            raise NotInDialect(
                f"a {self._dialect} worker does not learn the id of its job, so it cannot have "
                f"child jobs: connect this worker over one of {can}"
            )
        if not self._url:
            raise NotInDialect("this worker does not know its broker's client URL; set files_url")
        with self._lock:
            if self._client is None:
                self._client = Client(self._url, self._name, self._credentials)
            _ = self._client.portal
            return self._client

    def close(self) -> None:
        """Disconnect. Children continue."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


class ChildJob:
    """A child that was submitted: `await child.result()`."""

    def __init__(self, children: "Children", submit: Callable[[str], Job], parent: Parent) -> None:
        self._children = children
        self._submit = submit
        self._parent = parent
        self.position = parent.position
        self._failed = 0
        self._job = submit(child_id(parent))

    @property
    def id(self) -> str:
        """The job's id. It changes if a child of this position failed in an earlier run."""
        return self._job.id

    async def _outcome(self, timeout: float | None) -> Any:  # noqa: ASYNC109
        """Wait for the result, in the client's loop."""
        for _ in range(_MOST_TIMES):
            try:
                return await self._job.asynchronous.result(timeout)
            except JobFailed as error:
                await self._before_next(error)
            self._job = await asyncio.to_thread(self._submit, child_id(self._parent, self._failed))
        return await self._job.asynchronous.result(timeout)

    async def _before_next(self, error: JobFailed) -> None:
        """Prepare another submission, or raise the error."""
        if error.fault.code is FaultCode.CONFLICT:
            # A child of an earlier run failed under this id, and the parent was retried.
            self._failed += 1
        elif error.fault.code is FaultCode.UNAVAILABLE:
            # The broker restarted, and this worker is not registered again yet.
            await asyncio.sleep(_AGAIN_AFTER)
        else:
            raise error

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Wait for the result. Raises `JobFailed` and its kinds if the child failed."""
        with self._children.waiting():
            return await asyncio.wrap_future(self._children.begin(self._outcome(timeout)))

    def wait(self, timeout: float | None = None) -> Any:
        """Do what `result` does, in a task that is a plain function."""
        with self._children.waiting():
            return self._children.begin(self._outcome(timeout)).result()


class BlockingChildJob:
    """A child of a task that is a plain function: `child.result()`."""

    def __init__(self, child: ChildJob) -> None:
        self._child = child
        self.position = child.position

    @property
    def id(self) -> str:
        """The job's id. It changes if a child of this position failed in an earlier run."""
        return self._child.id

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises `JobFailed` and its kinds if the child failed."""
        return self._child.wait(timeout)


class Children:
    """Submits the children of one job."""

    def __init__(
        self,
        parent: ParentJob,
        client: ChildClient,
        lend: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._parent = parent
        self._client = client
        #: Lets another job have this one's thread while this one waits.
        self._lend = lend
        self._positions = itertools.count(1)
        self._options = CallOptions()
        self._position: int | None = None

    def options(self, options: CallOptions, position: int | None) -> "Children":
        """Return these children with options; the positions are counted together."""
        other = Children(self._parent, self._client, self._lend)
        other._positions = self._positions
        other._options, other._position = options, position
        return other

    def waiting(self) -> AbstractContextManager[object]:
        """Enter while the task waits for a child."""
        return self._lend()

    def begin(self, work: Coroutine[object, None, T]) -> Future[T]:
        """Run a coroutine in the client's loop; return its future."""
        return asyncio.run_coroutine_threadsafe(work, self._client.connected().portal.loop)

    def submit(self, service: str, call: Call) -> ChildJob:
        """Submit the child at the next position, or at the one of the options."""
        client = self._client.connected()
        position = self._position or next(self._positions)
        parent, o = Parent(self._parent.id, position), self._options
        options = {**o.more(), "parent": parent_members(parent)}
        call = self._traced(replace(call, timeout=o.timeout))

        def submit(job: str) -> Job:
            order = partial(client.asynchronous.order, service, call, o.target)
            known = partial(client.asynchronous.awaited, job, service, call)
            make = partial(order, priority=o.priority, job=job, options=options)
            return client.job_of(lambda: known() or make())

        return ChildJob(self, submit, parent)

    def _traced(self, call: Call) -> Call:
        """Return a call in the trace of the parent.

        The span of the parent is derived from its id: the same request in every run of the task.
        """
        if HEADER not in with_trace(call).headers and HEADER not in self._parent.headers:
            return call
        found = read_trace(self._parent.headers, self._parent.id)
        span = span_id(self._parent.id, "job")
        header = TraceContext(found.trace, span, found.is_sampled).header()
        return replace(call, headers={**call.headers, HEADER: header})

    @property
    def wait(self) -> float | None:
        """How many seconds to wait for a result, by the options."""
        return self._options.wait


class ChildCaller:
    """Calls other services from an async task. Positions are taken at the call."""

    def __init__(self, children: Children) -> None:
        self._children = children

    def submit(self, service: str, task: str = "", /, *args: object, **kwargs: object) -> ChildJob:
        """Submit a child job; return without waiting for its result."""
        return self._children.submit(service, Call(task, args, kwargs))

    def call(
        self, service: str, task: str = "", /, *args: object, **kwargs: object
    ) -> Awaitable[Any]:
        """Submit a child job; await its result."""
        return self.submit(service, task, *args, **kwargs).result(self._children.wait)

    async def map(
        self, service: str, task: str, calls: Iterable[object], /, *, window: int = 100
    ) -> AsyncIterator[Any]:
        """Make many calls, at most `window` at a time; yield the results in order."""
        waiting: deque[ChildJob] = deque()
        for args, kwargs in map(arguments_of, calls):
            waiting.append(self.submit(service, task, *args, **kwargs))
            if len(waiting) >= window:
                yield await waiting.popleft().result()
        while waiting:
            yield await waiting.popleft().result()


class BlockingChildCaller:
    """Calls other services from a task that is a plain function."""

    def __init__(self, children: Children) -> None:
        self._children = children

    def submit(
        self, service: str, task: str = "", /, *args: object, **kwargs: object
    ) -> BlockingChildJob:
        """Submit a child job; return without waiting for its result."""
        return BlockingChildJob(self._children.submit(service, Call(task, args, kwargs)))

    def call(self, service: str, task: str = "", /, *args: object, **kwargs: object) -> Any:
        """Submit a child job and wait for its result."""
        return self.submit(service, task, *args, **kwargs).result(self._children.wait)

    def map(
        self, service: str, task: str, calls: Iterable[object], /, *, window: int = 100
    ) -> Iterator[Any]:
        """Make many calls, at most `window` at a time; yield the results in order."""
        waiting: deque[BlockingChildJob] = deque()
        for args, kwargs in map(arguments_of, calls):
            waiting.append(self.submit(service, task, *args, **kwargs))
            if len(waiting) >= window:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class CallsChildren:
    """The part of a job's context that calls other services."""

    #: Submits the children. Set by the worker; None where a task cannot have any.
    children: Children | None = None
    #: Whether the task shares an event loop, which must not wait.
    is_on_event_loop = False

    def _found(self) -> Children:
        if self.children is None:
            raise NotInDialect(
                "a task in a process cannot have child jobs: run it in a thread or as async"
            )
        return self.children

    def child_options(
        self,
        *,
        target: "str | Target" = "any",
        timeout: float | None = None,
        priority: int = 0,
        retries: int | Retry | None = None,
        delay: float | timedelta = 0.0,
        at: float | datetime | None = None,
        run_timeout: float | None = None,
        position: int | None = None,
    ) -> Children:
        """Return the children with options."""
        o = CallOptions(target, timeout, priority, "", None, retries, delay, at, run_timeout)
        return self._found().options(o, position)

    def options(self, **options: Any) -> ChildCaller:
        """Return `call`, `submit` and `map` with options: those of `child_options`."""
        return ChildCaller(self.child_options(**options))

    def submit(self, service: str, task: str = "", /, *args: object, **kwargs: object) -> ChildJob:
        """Submit a child job; return without waiting for its result."""
        return ChildCaller(self._found()).submit(service, task, *args, **kwargs)

    def call(
        self, service: str, task: str = "", /, *args: object, **kwargs: object
    ) -> Awaitable[Any]:
        """Submit a child job; await its result. A plain function uses `job.blocking.call`."""
        return ChildCaller(self._found()).call(service, task, *args, **kwargs)

    def map(
        self, service: str, task: str, calls: Iterable[object], /, *, window: int = 100
    ) -> AsyncIterator[Any]:
        """Call a task for each item, at most `window` at a time; yield the results in order."""
        return ChildCaller(self._found()).map(service, task, calls, window=window)

    @property
    def blocking(self) -> "BlockingChildren":
        """The same for tasks that are plain functions: each call waits in its thread."""
        if self.is_on_event_loop:
            raise TaskFailed("job.blocking stops every async task; write `await job.call(...)`")
        return BlockingChildren(self)


class BlockingChildren(BlockingChildCaller):
    """`job.blocking`: `call`, `submit` and `map` that wait, also with options."""

    def __init__(self, job: CallsChildren) -> None:
        super().__init__(job._found())
        self._job = job

    def options(self, **options: Any) -> BlockingChildCaller:
        """Return `call`, `submit` and `map` with options: those of `child_options`."""
        return BlockingChildCaller(self._job.child_options(**options))
