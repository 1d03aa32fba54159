"""Calls with options: options are named first, every keyword argument of a call is the task's.

    client.options(timeout=10, key="order 66").call("media", "get", key="user:1")
    client.service("media").get(key="user:1")

A misspelt option is a type error, because `options` names them all.
"""

import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from dragoman.model.content import Call
from dragoman.model.limit import Limit, limit_members
from dragoman.model.retry import Retry, retry_members
from dragoman.model.target import Target
from dragoman.model.unique import Unique, unique_members
from dragoman.model.value import value
from dragoman.sdk.compositions import WORKFLOW_TASK, Plan

if TYPE_CHECKING:
    from dragoman.sdk.blocking import Client, Job
    from dragoman.sdk.client import AsyncClient
    from dragoman.sdk.jobs import AsyncJob

#: Seconds that an answer may take beyond the job's own deadline, which the broker keeps.
_MARGIN: Final = 5.0


@value
class CallOptions:
    """The options of a job: everything about it that is not its content."""

    target: "str | Target" = "any"
    #: Seconds from submission to the end of the job; None for the service's default.
    timeout: float | None = None
    priority: int = 0
    #: The idempotency key: a second submission with the same key is the same job.
    key: str = ""
    #: The job's id; random if None.
    job: str | None = None
    #: How often the task runs again if it fails; `Retry` says when and after what.
    #: 0: not at all. None: as the settings or the worker say of the task.
    retries: int | Retry | None = None
    #: Seconds before the job may start, ...
    delay: float | timedelta = 0.0
    #: ... or the instant: seconds since the epoch, or a `datetime`.
    at: float | datetime | None = None
    #: Seconds that one attempt may run.
    run_timeout: float | None = None
    #: A limit that the job shares with the other jobs of its key.
    limit: Limit | None = None
    #: A key that only one job has at a time; `Unique` says until when, and which job wins.
    unique: str | Unique = ""
    #: Seconds after the job's end in which its result is given out; None: while it is known.
    result_ttl: float | timedelta | None = None
    #: The URL that gets the end of the job; its host is in the broker's list.
    webhook: str = ""

    @property
    def wait(self) -> float | None:
        """How many seconds to wait for the result."""
        if self.timeout is None:
            return None
        return self.timeout + _MARGIN + max(_seconds(self.delay), self._instant - time.time(), 0.0)

    @property
    def _instant(self) -> float:
        at = self.at
        return at.timestamp() if isinstance(at, datetime) else at or 0.0

    def more(self) -> dict[str, Any]:
        """Return the options that a message carries in an object of their own."""
        retries, unique = self.retries, self.unique
        found = {
            "retries": retry_members(retries) if isinstance(retries, Retry) else retries,
            "delay": _seconds(self.delay),
            "at": self._instant,
            "run_timeout": self.run_timeout,
            "unique": unique_members(unique) if isinstance(unique, Unique) else unique,
            "limit": limit_members(self.limit) if self.limit is not None else None,
            "result_ttl": None if self.result_ttl is None else _seconds(self.result_ttl),
            "webhook": self.webhook,
        }
        # 0 is an answer here, if a wrong one for `result_ttl`: then the broker says so.
        is_said = {"retries": retries is not None, "result_ttl": self.result_ttl is not None}
        return {name: given for name, given in found.items() if is_said.get(name, given)}


def _seconds(span: float | timedelta) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else span


class AsyncCaller:
    """An `AsyncClient` with options."""

    def __init__(self, client: "AsyncClient", options: CallOptions) -> None:
        self._client = client
        self._options = options

    def submit(
        self, service: str, task: str = "", /, *args: object, **kwargs: object
    ) -> "AsyncJob":
        """Submit a job; return without waiting for its result."""
        return self._order(service, Call(task, args, kwargs, timeout=self._options.timeout))

    def submit_many(self, service: str, task: str, calls: Iterable[object], /) -> "list[AsyncJob]":
        """Submit a job for each item at once; the broker records them in few commits.

        A mapping is keyword arguments, a tuple is positional arguments, anything else is the only
        argument. The whole list is in memory; `map` keeps a window instead.
        """
        if self._options.key or self._options.job:
            raise ValueError("many jobs cannot share one key or job id")
        found = [arguments_of(item) for item in calls]
        return [self.submit(service, task, *args, **kwargs) for args, kwargs in found]

    def submit_workflow(self, service: str, plan: Plan, /) -> "AsyncJob":
        """Submit a plan to a worker of `service` that offers workflows; its result is the job's."""
        return self.submit(service, WORKFLOW_TASK, plan.members())

    def submit_raw(self, service: str, data: bytes, /, task: str = "") -> "AsyncJob":
        """Submit a job whose request is these bytes."""
        return self._order(service, Call(task, raw=data, timeout=self._options.timeout))

    def _order(self, service: str, call: Call) -> "AsyncJob":
        o = self._options
        return self._client.order(
            service, call, o.target, priority=o.priority, key=o.key, job=o.job, options=o.more()
        )

    async def call(self, service: str, task: str = "", /, *args: object, **kwargs: object) -> Any:
        """Submit a job and wait for its result."""
        return await self._result(self.submit(service, task, *args, **kwargs))

    async def call_raw(self, service: str, data: bytes, /, task: str = "") -> Any:
        """Submit these bytes and wait for the result."""
        return await self._result(self.submit_raw(service, data, task))

    async def _result(self, job: "AsyncJob") -> Any:
        try:
            return await job.result(self._options.wait)
        finally:
            self._client.drop(job)

    def map(
        self, service: str, task: str, calls: Iterable[object], /, *, window: int = 100
    ) -> AsyncIterator[Any]:
        """Make many calls, at most `window` at a time; yield the results in order."""
        return self._client.map_calls(self, service, task, calls, window)

    def service(self, name: str) -> "AsyncService":
        """Return a service whose tasks are methods."""
        return AsyncService(self, name)


class AsyncService:
    """A service of the broker: `await service.task(...)` calls a task."""

    def __init__(self, caller: AsyncCaller, name: str) -> None:
        self._caller = caller
        self._name = name

    def __getattr__(self, task: str) -> Callable[..., Awaitable[Any]]:
        if task.startswith("_"):
            raise AttributeError(task)

        def call(*args: object, **kwargs: object) -> Awaitable[Any]:
            return self._caller.call(self._name, task, *args, **kwargs)

        return call


class Caller:
    """A `Client` with options."""

    def __init__(self, client: "Client", options: CallOptions) -> None:
        self._client = client
        self._caller = AsyncCaller(client.asynchronous, options)

    def submit(self, service: str, task: str = "", /, *args: object, **kwargs: object) -> "Job":
        """Submit a job; return without waiting for its result."""
        return self._client.job_of(lambda: self._caller.submit(service, task, *args, **kwargs))

    def submit_many(self, service: str, task: str, calls: Iterable[object], /) -> "list[Job]":
        """Submit a job for each item at once; see `AsyncCaller.submit_many`."""
        return self._client.jobs_of(lambda: self._caller.submit_many(service, task, calls))

    def submit_workflow(self, service: str, plan: Plan, /) -> "Job":
        """Submit a plan; see `AsyncCaller.submit_workflow`."""
        return self._client.job_of(lambda: self._caller.submit_workflow(service, plan))

    def submit_raw(self, service: str, data: bytes, /, task: str = "") -> "Job":
        """Submit a job whose request is these bytes."""
        return self._client.job_of(lambda: self._caller.submit_raw(service, data, task))

    def call(self, service: str, task: str = "", /, *args: object, **kwargs: object) -> Any:
        """Submit a job and wait for its result."""
        return self._client.portal.wait(self._caller.call(service, task, *args, **kwargs))

    def call_raw(self, service: str, data: bytes, /, task: str = "") -> Any:
        """Submit these bytes and wait for the result."""
        return self._client.portal.wait(self._caller.call_raw(service, data, task))

    def map(
        self, service: str, task: str, calls: Iterable[object], /, *, window: int = 100
    ) -> Iterator[Any]:
        """Make many calls, at most `window` at a time; yield the results in order."""
        return self._client.iterate(lambda: self._caller.map(service, task, calls, window=window))

    def service(self, name: str) -> "Service":
        """Return a service whose tasks are methods."""
        return Service(self, name)


class Service:
    """A service of the broker: `service.task(...)` calls a task and waits for its result."""

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self._name = name

    def __getattr__(self, task: str) -> Callable[..., Any]:
        if task.startswith("_"):
            raise AttributeError(task)

        def call(*args: object, **kwargs: object) -> Any:
            return self._caller.call(self._name, task, *args, **kwargs)

        return call


def arguments_of(item: object) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """Return the arguments of one of many calls: a mapping, a tuple, or the only argument."""
    if isinstance(item, Mapping):
        return (), item
    return (item, {}) if isinstance(item, tuple) else ((item,), {})


#: The options that `call` and `submit` of a client still accept among the task's arguments.
_OPTIONS: Final = ("target", "timeout", "priority", "key", "job", "raw")


def split_options(mixed: Mapping[str, Any]) -> tuple[CallOptions, dict[str, Any]]:
    """Split options from the task's arguments; `raw` stays among the latter."""
    options = {name: mixed[name] for name in _OPTIONS[:-1] if name in mixed}
    return CallOptions(**options), {k: v for k, v in mixed.items() if k not in options}


def warn_of_options(arguments: Mapping[str, object]) -> None:
    """Warn of options among a task's arguments: a task cannot have arguments of these names."""
    used = [name for name in _OPTIONS if name in arguments]
    if used:
        warnings.warn(
            f"options in call and submit ({', '.join(used)}) are deprecated: they hide task "
            f"arguments of the same name; use client.options({used[0]}=...).call(...)",
            DeprecationWarning,
            stacklevel=3,
        )
