"""The blocking client: a thin wrapper around `AsyncClient`.

Each client has one background thread with an event loop. Every method runs its coroutine there and
waits for the result.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from dragoman.dialects.peer_sides import Chunk, Dispatched, InputAsked, Progress, Published
from dragoman.model.content import Call
from dragoman.model.limit import Limit
from dragoman.model.retry import Retry
from dragoman.model.target import Target
from dragoman.model.unique import Unique
from dragoman.sdk.calls import Caller, CallOptions, Service, warn_of_options
from dragoman.sdk.client import AsyncClient
from dragoman.sdk.credentials import CredentialsLike
from dragoman.sdk.jobs import AsyncJob, as_completed
from dragoman.sdk.large_values import LargeValues
from dragoman.sdk.middleware import Middleware
from dragoman.sdk.tracing import with_trace

T = TypeVar("T")


class Portal:
    """A background thread with an event loop."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def wait(self, work: Coroutine[object, None, T]) -> T:
        """Run a coroutine in the thread's loop; return its result."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5.0)


class Job:
    """One submitted job; see `AsyncJob`."""

    def __init__(self, job: AsyncJob, portal: Portal) -> None:
        self._job = job
        self._portal = portal
        self.id = job.id

    @property
    def asynchronous(self) -> AsyncJob:
        """The job in the client's thread."""
        return self._job

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers that have the job; empty until the broker names them."""
        return self._job.workers

    @property
    def is_done(self) -> bool:
        """Whether the job has ended."""
        return self._job.is_done

    def wait_until_acknowledged(self, at_most: float) -> bool:
        """Wait for the broker's acknowledgement; return whether it came in time."""
        return self._portal.wait(self._job.wait_until_acknowledged(at_most))

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result."""
        return self._portal.wait(self._job.result(timeout))

    def served(self, timeout: float | None = None) -> dict[str, str]:
        """Wait for the result; return which worker served which resource, by resource."""
        return self._portal.wait(self._job.served(timeout))

    def events(
        self, timeout: float | None = None
    ) -> Iterator[Progress | Chunk | InputAsked | Dispatched]:
        """Yield the job's events until it ends, or until `timeout` seconds have passed."""
        return _iterate(self._portal, lambda: self._job.events(timeout))

    def cancel(self, timeout: float = 10.0) -> str:
        """Cancel the job; return its final state in words."""
        return self._portal.wait(self._job.cancel(timeout))

    def forget(self) -> None:
        """Have the broker give the result out no more; the job must have ended."""
        self._portal.wait(self._job.forget())

    def give_input(self, request: str, answer: object, worker: str = "") -> None:
        """Answer a question that came as `InputAsked`."""
        self._portal.loop.call_soon_threadsafe(self._job.give_input, request, answer, worker)


def _iterate(portal: Portal, make: Callable[[], Any]) -> Iterator[Any]:
    """Yield the items of an asynchronous iterator that runs in a portal's loop."""
    source = make()
    end = object()

    async def step() -> Any:
        return await anext(source, end)

    try:
        while (item := portal.wait(step())) is not end:
            yield item
    finally:
        if not portal.loop.is_closed():
            portal.wait(source.aclose())


class Client:
    """A client of one broker. Use as `with Client(url) as client`."""

    def __init__(
        self,
        url: str,
        name: str | None = None,
        credentials: CredentialsLike = None,
        middleware: Sequence[Middleware] = (),
        large_values: LargeValues | None = None,
    ) -> None:
        """Prepare. `middleware` runs around each submission, in the client's thread.

        Arguments above a bound are stored at `large_values`; their calls carry references.
        """
        self._client = AsyncClient(url, name, credentials, middleware, large_values)
        self.name = self._client.name
        self._portal: Portal | None = None

    @property
    def portal(self) -> Portal:
        """The client's thread; it starts, and connects, on first use."""
        if self._portal is None:
            self._portal = Portal(f"dragoman client {self.name}")
            self._portal.wait(self._client.open())
        return self._portal

    @property
    def asynchronous(self) -> AsyncClient:
        """The wrapped client; run its coroutines with `portal.wait`."""
        return self._client

    def __enter__(self) -> "Client":
        _ = self.portal
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Submitted jobs continue; ask for their results later by id."""
        if self._portal is not None:
            portal, self._portal = self._portal, None
            portal.wait(self._client.close())
            portal.close()

    def options(
        self,
        *,
        target: "str | Target" = "any",
        timeout: float | None = None,
        priority: int = 0,
        key: str = "",
        job: str | None = None,
        retries: int | Retry | None = None,
        delay: float | timedelta = 0.0,
        at: float | datetime | None = None,
        run_timeout: float | None = None,
        limit: Limit | None = None,
        unique: str | Unique = "",
        result_ttl: float | timedelta | None = None,
        webhook: str = "",
    ) -> Caller:
        """Return this client with options; every keyword argument of its calls is the task's."""
        when = (retries, delay, at, run_timeout, limit, unique, result_ttl, webhook)
        o = CallOptions(target, timeout, priority, key, job, *when)
        return Caller(self, o)

    def service(self, name: str) -> Service:
        """Return a service whose tasks are methods: `client.service("math").add(1, 2)`."""
        return self.options().service(name)

    def job_of(self, submit: Callable[[], AsyncJob]) -> Job:
        """Submit a job in the client's thread; return its blocking form."""

        async def in_thread() -> AsyncJob:
            return submit()

        return Job(self.portal.wait(in_thread()), self.portal)

    def jobs_of(self, submit: Callable[[], list[AsyncJob]]) -> list[Job]:
        """Submit jobs in the client's thread; return their blocking forms."""

        async def in_thread() -> list[AsyncJob]:
            return submit()

        return [Job(job, self.portal) for job in self.portal.wait(in_thread())]

    def as_completed(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield jobs as they end, whatever their end is."""
        known = {job.asynchronous: job for job in jobs}
        for ended in _iterate(self.portal, lambda: as_completed(known)):
            yield known[ended]

    def wait(
        self, jobs: Iterable[Job], timeout: float | None = None
    ) -> tuple[list[Job], list[Job]]:
        """Wait for many jobs; return those that have ended in time, and the others."""
        known = {job.asynchronous: job for job in jobs}
        ended, others = self.portal.wait(self._client.wait(list(known), timeout))
        return [known[job] for job in ended], [known[job] for job in others]

    def gather(self, jobs: Iterable[Job], timeout: float | None = None) -> list[Any]:
        """Return the results of many jobs, in their order."""
        found = [job.asynchronous for job in jobs]
        return self.portal.wait(self._client.gather(found, timeout))

    def follow(self, *, job: str = "", service: str = "", after: int = -1) -> Iterator[Published]:
        """Yield the records of one job, to its end, or of one service."""
        return _iterate(
            self.portal, lambda: self._client.follow(job=job, service=service, after=after)
        )

    def iterate(self, make: Callable[[], Any]) -> Iterator[Any]:
        """Yield the items of an asynchronous iterator of the wrapped client."""
        return _iterate(self.portal, make)

    def call(self, service: str, task: str = "", *args: object, **kwargs: object) -> Any:
        """Submit a job and wait for its result. Options among the arguments are deprecated."""
        warn_of_options(kwargs)
        return self.portal.wait(self._client.call_mixed(service, task, args, kwargs))

    @property
    def is_acknowledged(self) -> bool:
        """Whether this dialect acknowledges a job before it ends."""
        return self._client.is_acknowledged

    def order(
        self,
        service: str,
        call: Call,
        target: "str | Target" = "any",
        *,
        priority: int = 0,
        key: str = "",
        job: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Job:
        """Submit a `Call`; for task arguments whose names clash with options of `submit`."""
        # Here, not in the client's thread: the current span is of the caller's thread.
        submit = partial(self._client.order, service, with_trace(call), target)
        return self.job_of(lambda: submit(priority=priority, key=key, job=job, options=options))

    def submit(self, service: str, task: str = "", *args: object, **kwargs: object) -> Job:
        """Submit a job; return at once. Options among the arguments are deprecated."""
        warn_of_options(kwargs)
        current = copy_context()
        submit = partial(self._client.submit_mixed, service, task, args, kwargs)
        return self.job_of(lambda: current.run(submit)[0])

    def map(
        self, service: str, task: str, calls: Iterable[object], **options: Any
    ) -> Iterator[Any]:
        """Make many calls, at most `window` at a time; yield the results in order."""
        return _iterate(self.portal, lambda: self._client.map(service, task, calls, **options))

    def job(self, job_id: str, service: str = "", target: str = "any") -> Job:
        """Return a job by its id; another client may have submitted it."""
        return self.job_of(lambda: self._client.job(job_id, service, target))

    def subscribe(self, *topics: str, after: int = -1) -> Iterator[Published]:
        """Yield events of the broker and its workers after a ledger position (-1: from now)."""
        return _iterate(self.portal, lambda: self._client.subscribe(*topics, after=after))
