"""The asyncio client: submit jobs to a service by name, over any dialect.

`blocking` wraps it for code without asyncio. The client repairs lost messages. It submits an
unacknowledged job again under the same id, which the broker treats as the same job. It asks for
the result of an acknowledged job. After long silence it opens a new socket.
"""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import Any, Final

from dragoman.dialects.peer_sides import (
    ClientNotice,
    ClientSide,
    Finished,
    Published,
    SendNow,
    Submission,
    Unsupported,
)
from dragoman.dialects.registry import DIALECTS
from dragoman.model.content import Call
from dragoman.model.limit import Limit
from dragoman.model.names import JobId
from dragoman.model.retry import Retry
from dragoman.model.target import Target, parse_target
from dragoman.model.unique import Unique
from dragoman.sdk.calls import (
    AsyncCaller,
    AsyncService,
    CallOptions,
    arguments_of,
    split_options,
    warn_of_options,
)
from dragoman.sdk.connection import BrokerConnection
from dragoman.sdk.credentials import CredentialsLike, find_credentials
from dragoman.sdk.errors import Refused
from dragoman.sdk.event_polls import PULL_WAIT, poll_events
from dragoman.sdk.files import AsyncFiles
from dragoman.sdk.jobs import AsyncJob
from dragoman.sdk.large_values import LargeValues
from dragoman.sdk.many_jobs import follow, gather_results, wait_for_all
from dragoman.sdk.middleware import Middleware, note_finished, submission_before
from dragoman.sdk.peer_factories import peer_factory_for
from dragoman.sdk.tracing import with_trace
from dragoman.sdk.url import parse_url
from dragoman.sdk.value_uploads import ValueUploads

#: Seconds before an unacknowledged job is submitted again; the interval doubles each time.
RESUBMIT_AFTER: Final = 2.0
#: Seconds between two questions about an acknowledged job without news.
ASK_EVERY: Final = 10.0
#: Seconds before the second question about a job that another client submitted; doubles. The
#: broker tells only its submitter when it ends.
FOLLOW_AFTER: Final = 0.5
#: If jobs wait and the broker is silent for so many seconds, the client opens a new socket.
SILENCE: Final = 8.0
_TICK: Final = 0.5
#: Published events that may wait to be read.
_FEED: Final = 100_000
MANAGEMENT: Final = "mmi.service.broker"


def new_id() -> str:
    """Return a new id: 128 random bits in hex."""
    return os.urandom(16).hex()


def id_of_key(key: str) -> str:
    """Derive a job's id from its idempotency key."""
    return sha256(f"dragoman key {key}".encode()).hexdigest()[:32]


def default_name() -> str:
    """Return a client name: host, process id and six random digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"


class AsyncClient:
    """A client of one broker. Use as `async with AsyncClient(url) as client`."""

    def __init__(
        self,
        url: str,
        name: str | None = None,
        credentials: CredentialsLike = None,
        middleware: Sequence[Middleware] = (),
        large_values: LargeValues | None = None,
    ) -> None:
        """Prepare. `middleware` runs around each submission, in this order.

        Arguments above a bound are stored at `large_values`; their calls carry references.
        """
        self._middleware = tuple(middleware)
        self.endpoint = parse_url(url)
        self.name = name or default_name()
        kit = peer_factory_for(self.endpoint.dialect, find_credentials(credentials))
        self._side: ClientSide = kit.client_side(self.name, new_id)
        #: Whether this dialect acknowledges a job before it ends.
        self.is_acknowledged = DIALECTS[self.endpoint.dialect].acknowledges
        self._connection = BrokerConnection(
            lambda: kit.client_transport(self.endpoint, self.name), self._receive
        )
        self._jobs: dict[str, AsyncJob] = {}
        self._uploads = ValueUploads(large_values, AsyncFiles(self), self._send_stored, self.drop)
        self._feed: asyncio.Queue[Published] | None = None
        self._subscription: tuple[tuple[str, ...], int] = ((), 0)
        self._keeper: asyncio.Task[None] | None = None
        self._reconnections = 0

    async def __aenter__(self) -> "AsyncClient":
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect and start the task that repeats lost messages."""
        await self._connection.open()
        self._connection.send(self._side.hello())
        self._keeper = asyncio.create_task(self._keep(), name="dragoman client keeper")

    async def close(self) -> None:
        """Disconnect. Submitted jobs continue; ask for their results later by id."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        self._uploads.close()
        for job in self._jobs.values():
            job.give_up(ConnectionError("the client was closed"))
        self._jobs.clear()
        await self._connection.close()

    # --- submitting jobs ----------------------------------------------------------------------

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
    ) -> AsyncCaller:
        """Return this client with options; every keyword argument of its calls is the task's."""
        when = (retries, delay, at, run_timeout, limit, unique, result_ttl, webhook)
        o = CallOptions(target, timeout, priority, key, job, *when)
        return AsyncCaller(self, o)

    def service(self, name: str) -> AsyncService:
        """Return a service whose tasks are methods: `await client.service("math").add(1, 2)`."""
        return self.options().service(name)

    async def submit(
        self, service: str, task: str = "", *args: object, **kwargs: object
    ) -> AsyncJob:
        """Submit a job; return without waiting for its result.

        Options among the keyword arguments (`target`, `timeout`, `priority`, `key`, `job`, `raw`)
        are deprecated; use `options`.
        """
        warn_of_options(kwargs)
        return self.submit_mixed(service, task, args, kwargs)[0]

    def submit_mixed(
        self, service: str, task: str, args: tuple[object, ...], mixed: Mapping[str, object]
    ) -> tuple[AsyncJob, float | None]:
        """Submit a job with options among its arguments; return it and how long to wait for it."""
        options, kwargs = split_options(mixed)
        raw = kwargs.pop("raw", None)
        call = Call(task, args, kwargs, raw, timeout=options.timeout)
        o = options
        job = self.order(service, call, o.target, priority=o.priority, key=o.key, job=o.job)
        return job, options.wait

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
    ) -> AsyncJob:
        """Submit a `Call`; for task arguments whose names clash with options of `submit`."""
        call = with_trace(call)
        parsed = parse_target(target) if isinstance(target, str) else target
        if key and not job and DIALECTS[self.endpoint.dialect].key_is_job_id:
            job, key = id_of_key(key), ""
            if (known := self._jobs.get(job)) is not None:
                return known
        name, more = JobId(job or new_id()), options or {}
        submission = Submission(name, service, call, parsed, priority, key, more)
        submission = submission_before(self._middleware, submission)
        if self._uploads.concern(submission):
            submitted = self._jobs[submission.job] = AsyncJob(submission, self, monotonic())
            self._uploads.begin(submitted)
            return submitted
        # Encode first: a request that cannot be encoded must not be remembered as submitted.
        frames = list(self._side.submit(submission))
        submitted = self._jobs[submission.job] = AsyncJob(submission, self, monotonic())
        self._connection.send(frames)
        return submitted

    def _send_stored(self, job: AsyncJob) -> None:
        job.asked_at = monotonic()
        self._connection.send(list(self._side.submit(job.submission)))

    async def load(self, found: object) -> Any:
        """Return the value of a reference; another value as it is."""
        return await self._uploads.load(found)

    def awaited(self, job_id: str, service: str, call: Call) -> AsyncJob | None:
        """Return a job that this client waits for, if it is the same request."""
        known = self._jobs.get(job_id)
        if known is None or (known.submission.service, known.submission.call) != (service, call):
            return None
        return known

    async def call(self, service: str, task: str = "", *args: object, **kwargs: object) -> Any:
        """Submit a job and wait for its result. Options among the arguments are deprecated."""
        warn_of_options(kwargs)
        return await self.call_mixed(service, task, args, kwargs)

    async def call_mixed(
        self, service: str, task: str, args: tuple[object, ...], mixed: Mapping[str, object]
    ) -> Any:
        """Call with options among the arguments."""
        job, wait = self.submit_mixed(service, task, args, mixed)
        try:
            return await job.result(wait)
        finally:
            self.drop(job)

    def map(
        self,
        service: str,
        task: str,
        calls: Iterable[Mapping[str, object] | tuple[object, ...] | object],
        *,
        window: int = 100,
        **mixed: object,
    ) -> AsyncIterator[Any]:
        """Make many calls, at most `window` at a time; yield results in the order of the calls.

        A mapping is keyword arguments, a tuple is positional arguments, anything else is the only
        argument.
        """
        options, shared = split_options(mixed)
        return self.map_calls(AsyncCaller(self, options), service, task, calls, window, shared)

    async def map_calls(
        self,
        caller: AsyncCaller,
        service: str,
        task: str,
        calls: Iterable[object],
        window: int,
        shared: Mapping[str, object] | None = None,
    ) -> AsyncIterator[Any]:
        """Make many calls with options; `shared` are keyword arguments of all of them."""
        waiting: deque[AsyncJob] = deque()
        for item in calls:
            args, kwargs = arguments_of(item)
            waiting.append(caller.submit(service, task, *args, **{**kwargs, **(shared or {})}))
            if len(waiting) >= window:
                yield await self._pop(waiting)
        while waiting:
            yield await self._pop(waiting)

    def drop(self, job: AsyncJob) -> None:
        """Stop tracking a job whose result was read."""
        self._jobs.pop(job.id, None)

    async def _pop(self, waiting: deque[AsyncJob]) -> object:
        job = waiting.popleft()
        try:
            return await job.result()
        finally:
            self._jobs.pop(job.id, None)

    # --- submitted jobs -----------------------------------------------------------------------

    def job(self, job_id: str, service: str = "", target: str = "any") -> AsyncJob:
        """Return a job by its id; another client may have submitted it."""
        known = self._jobs.get(job_id)
        if known is not None:
            return known
        submission = Submission(JobId(job_id), service, Call(), parse_target(target))
        job = self._jobs[job_id] = AsyncJob(submission, self, monotonic())
        job.is_acknowledged = True
        job.ask_after = FOLLOW_AFTER
        self._connection.send(self._side.ask(job.id))
        return job

    def forget(self, job: AsyncJob) -> None:
        """Stop waiting for a job. It continues, and its result can be asked for by id."""
        self._jobs.pop(job.id, None)
        forget = getattr(self._side, "forget", None)
        if forget is not None:
            forget(job.id)

    async def forget_result(self, job_id: str) -> None:
        """Have the broker give the result of a finished job out no more."""
        await self.options(timeout=30.0).call(MANAGEMENT, "forget_result", job_id)

    def cancel_job(self, job: AsyncJob) -> None:
        """Send a cancel request."""
        self._connection.send(self._side.cancel(job.id))

    def send_input(self, job: AsyncJob, request: str, answer: object, worker: str) -> None:
        """Send the answer to a worker's question."""
        self._connection.send(self._side.give_input(job.id, request, answer, worker))

    async def wait(
        self,
        jobs: Sequence[AsyncJob],
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> tuple[list[AsyncJob], list[AsyncJob]]:
        """Wait for many jobs; return those that have ended in time, and the others."""
        return await wait_for_all(jobs, timeout)

    async def gather(self, jobs: Sequence[AsyncJob], timeout: float | None = None) -> list[Any]:  # noqa: ASYNC109
        """Return the results of many jobs, in their order."""
        return await gather_results(jobs, timeout)

    def follow(
        self, *, job: str = "", service: str = "", after: int = -1
    ) -> AsyncIterator[Published]:
        """Yield the records of one job, to its end, or of one service."""
        return follow(self, job, service, after)

    async def subscribe(self, *topics: str, after: int = -1) -> AsyncIterator[Published]:
        """Yield events whose topic matches a glob, after a ledger position (-1: from now)."""
        wanted = (topics or ("*",), after)
        try:
            frames = self._side.subscribe(*wanted)
        except Unsupported:
            ask = partial(self.options(timeout=PULL_WAIT + 10.0).call, MANAGEMENT, "events")
            async for event in poll_events(ask, *wanted):
                yield event
            return
        self._feed = asyncio.Queue(_FEED)
        self._subscription = wanted
        self._connection.send(frames)
        while True:
            event = await self._feed.get()
            self._subscription = (self._subscription[0], event.seq)
            yield event

    # --- receiving and repeating --------------------------------------------------------------

    def _receive(self, frames: list[bytes]) -> None:
        for notice in self._side.receive(frames):
            if isinstance(notice, SendNow):
                self._connection.send([notice.frames])
            elif isinstance(notice, Published):
                if self._feed is not None and not self._feed.full():
                    self._feed.put_nowait(notice)
            else:
                self._deliver(notice)

    def _deliver(self, notice: ClientNotice) -> None:
        job = self._jobs.get(notice.job)  # type: ignore[union-attr]
        if job is not None:
            job.asked_at, job.asks = monotonic(), 0
            job.receive(notice)
            if job.is_done:
                self._jobs.pop(job.id, None)
                if isinstance(notice, Finished) and job.submission.service:
                    note_finished(self._middleware, job.submission, notice)

    async def _keep(self) -> None:
        """Repeat what may have been lost; open a new socket if the broker is silent."""
        while True:
            await asyncio.sleep(_TICK)
            now = monotonic()
            if self.refusal:
                self._fail_refused()
            if self._has_moved():
                # The broker behind the other address has sent nothing to this connection yet.
                self._greet_again()
                self._ask_again(list(self._jobs.values()), now)
                continue
            late = [j for j in self._jobs.values() if now - j.asked_at >= _repeat_after(j)]
            if not late:
                continue
            if now - self._connection.heard_at >= SILENCE:
                await self._connection.rebuild()
                self._greet_again()
            self._ask_again(late, now)

    def _has_moved(self) -> bool:
        before, self._reconnections = self._reconnections, self._connection.reconnections
        return self._reconnections > before

    def _greet_again(self) -> None:
        self._connection.send(self._side.hello())
        if self._feed is not None:
            self._connection.send(self._side.subscribe(*self._subscription))

    def _ask_again(self, jobs: "list[AsyncJob]", now: float) -> None:
        for job in jobs:
            job.asked_at, job.asks = now, job.asks + 1
            job.ask_after = min(job.ask_after * 2, ASK_EVERY)
            self._connection.send(self._repeat(job))

    @property
    def refusal(self) -> str:
        """Why the broker refused this client's credentials; empty if it did not."""
        return self._connection.refusal

    @property
    def connection_hint(self) -> str:
        """The likely reason why the broker does not answer; empty if unknown."""
        return self._connection.connection_hint

    def _fail_refused(self) -> None:
        """End the wait for every job: a broker that refuses this client never answers it."""
        for job in list(self._jobs.values()):
            rest = "; the job continues" if job.is_acknowledged else ""
            job.give_up(Refused(f"{self.endpoint}: {self.refusal}{rest}"))
            del self._jobs[job.id]

    def _repeat(self, job: AsyncJob) -> list[Any]:
        """Return a question about an acknowledged job, or else its submission."""
        if job.is_being_stored:
            return []
        if not job.is_acknowledged:
            return list(self._side.submit(job.submission))
        try:
            return list(self._side.ask(job.id))
        except Unsupported:
            return list(self._side.submit(job.submission))


def _repeat_after(job: AsyncJob) -> float:
    if job.is_acknowledged:
        return job.ask_after or ASK_EVERY
    return min(RESUBMIT_AFTER * 2.0**job.asks, ASK_EVERY)


Notify = Callable[[ClientNotice], None]
