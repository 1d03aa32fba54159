"""The client: ask for work by service name, on any dialect.

One asyncio implementation; `blocking` puts a thin door in front of it. Lost messages are said
again: a job that was not acknowledged is submitted again under its id (which makes it the same
job), one that was is asked about, and after long silence the socket is rebuilt.
"""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from dragoman.dialects.peer_sides import (
    ClientNotice,
    ClientSide,
    Published,
    SendNow,
    Submission,
    Unsupported,
)
from dragoman.model.content import Call
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId
from dragoman.model.target import Target, parse_target
from dragoman.sdk.connection import BrokerConnection
from dragoman.sdk.credentials import CredentialsLike, find_credentials
from dragoman.sdk.errors import JobFailed, Refused, StillRunning, Unreachable
from dragoman.sdk.jobs import AsyncJob
from dragoman.sdk.peer_factories import peer_factory_for
from dragoman.sdk.url import parse_url

#: A job without an acknowledgement is submitted again after so long, then ever more rarely.
RESUBMIT_AFTER: Final = 2.0
#: An acknowledged job without news is asked about this often.
ASK_EVERY: Final = 10.0
#: With jobs waiting and nothing heard for so long, the socket is rebuilt.
SILENCE: Final = 8.0
_TICK: Final = 0.5
#: Dialects whose brokers say that they have a job before it is done.
ACKNOWLEDGING: Final = frozenset({"nfp", "http"})
#: Dialects whose requests have no place for an idempotency key beside the job's id, which is part
#: of the body that two requests are compared by. There the key names the job.
KEYS_NAME_JOBS: Final = frozenset({"dcp", "zss"})
#: Events of the fabric that may wait to be read.
_FEED: Final = 100_000
#: How long one question for events waits for news.
PULL_WAIT: Final = 20.0
MANAGEMENT: Final = "mmi.service.broker"
#: Faults after which the same question may be answered: the broker begins anew, or is slow.
_PASSING: Final = frozenset(
    {FaultCode.DRAINING, FaultCode.NO_WORKER, FaultCode.JOB_TIMEOUT, FaultCode.WORKER_LOST}
)


def new_id() -> str:
    """Return a fresh id: 128 random bits in hex."""
    return os.urandom(16).hex()


def id_of_key(key: str) -> str:
    """Return the id of the job that an idempotency key stands for."""
    return sha256(f"dragoman key {key}".encode()).hexdigest()[:32]


def default_name() -> str:
    """Name a client after its host and process, with a few random digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"


class AsyncClient:
    """A client of one broker. Use as `async with AsyncClient(url) as client`."""

    def __init__(
        self, url: str, name: str | None = None, credentials: CredentialsLike = None
    ) -> None:
        self.endpoint = parse_url(url)
        self.name = name or default_name()
        kit = peer_factory_for(self.endpoint.dialect, find_credentials(credentials))
        self._side: ClientSide = kit.client_side(self.name, new_id)
        #: Whether the broker says that it has a job before it is done.
        self.is_acknowledged = self.endpoint.dialect in ACKNOWLEDGING
        self._connection = BrokerConnection(
            lambda: kit.client_transport(self.endpoint, self.name), self._receive
        )
        self._jobs: dict[str, AsyncJob] = {}
        self._feed: asyncio.Queue[Published] | None = None
        self._subscription: tuple[tuple[str, ...], int] = ((), 0)
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "AsyncClient":
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect."""
        await self._connection.open()
        self._connection.send(self._side.hello())
        self._keeper = asyncio.create_task(self._keep(), name="dragoman client keeper")

    async def close(self) -> None:
        """Let go. Jobs go on; their results can be asked for by id later."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        for job in self._jobs.values():
            job.give_up(ConnectionError("the client was closed"))
        self._jobs.clear()
        await self._connection.close()

    # --- asking for work ----------------------------------------------------------------------

    async def submit(
        self,
        service: str,
        task: str = "",
        *args: Any,
        target: "str | Target" = "any",
        timeout: float | None = None,  # noqa: ASYNC109
        priority: int = 0,
        key: str = "",
        job: str | None = None,
        raw: bytes | None = None,
        **kwargs: Any,
    ) -> AsyncJob:
        """Ask for work and return at once; the job's methods tell what becomes of it."""
        call = Call(task, args, kwargs, raw, timeout=timeout)
        return self.order(service, call, target, priority=priority, key=key, job=job)

    def order(
        self,
        service: str,
        call: Call,
        target: "str | Target" = "any",
        *,
        priority: int = 0,
        key: str = "",
        job: str | None = None,
    ) -> AsyncJob:
        """Ask for work said as a `Call`, for arguments that clash with `submit`'s own."""
        aim = parse_target(target) if isinstance(target, str) else target
        if key and not job and self.endpoint.dialect in KEYS_NAME_JOBS:
            job, key = id_of_key(key), ""
            if (known := self._jobs.get(job)) is not None:
                return known
        order = Submission(JobId(job or new_id()), service, call, aim, priority, key)
        # First of all: what cannot be written must not be remembered as asked for.
        frames = list(self._side.submit(order))
        found = self._jobs[order.job] = AsyncJob(order, self, self._now())
        self._connection.send(frames)
        return found

    async def call(self, service: str, task: str = "", *args: Any, **options: Any) -> Any:
        """Ask for work and wait for its result. Options as in `submit`."""
        timeout = options.get("timeout")
        job = await self.submit(service, task, *args, **options)
        try:
            # The broker ends the job at its deadline; the margin lets its word arrive.
            return await job.result(None if timeout is None else timeout + 5.0)
        finally:
            self._jobs.pop(job.id, None)

    async def map(
        self,
        service: str,
        task: str,
        calls: Iterable[Mapping[str, Any] | tuple[Any, ...] | Any],
        *,
        window: int = 100,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Make many calls, at most `window` at a time; yield results in the order of the calls.

        Each item is the keyword arguments (a mapping), the positional ones (a tuple), or the only
        one (anything else).
        """
        waiting: deque[AsyncJob] = deque()
        for item in calls:
            args, kwargs = _arguments(item)
            waiting.append(await self.submit(service, task, *args, **{**kwargs, **options}))
            if len(waiting) >= window:
                yield await self._pop(waiting)
        while waiting:
            yield await self._pop(waiting)

    async def _pop(self, waiting: deque[AsyncJob]) -> Any:
        job = waiting.popleft()
        try:
            return await job.result()
        finally:
            self._jobs.pop(job.id, None)

    # --- asking about work --------------------------------------------------------------------

    def job(self, job_id: str, service: str = "", target: str = "any") -> AsyncJob:
        """Return a job by id, also one that another client submitted; `result` waits for it."""
        known = self._jobs.get(job_id)
        if known is not None:
            return known
        order = Submission(JobId(job_id), service, Call(), parse_target(target))
        job = self._jobs[job_id] = AsyncJob(order, self, self._now())
        job.is_acknowledged = True
        self._connection.send(self._side.ask(job.id))
        return job

    def forget(self, job: AsyncJob) -> None:
        """Stop waiting for a job; it goes on, and can be asked for by its id."""
        self._jobs.pop(job.id, None)
        forget = getattr(self._side, "forget", None)
        if forget is not None:
            forget(job.id)

    def cancel_job(self, job: AsyncJob) -> None:
        """Ask the broker to stop a job."""
        self._connection.send(self._side.cancel(job.id))

    def send_input(self, job: AsyncJob, request: str, answer: Any, worker: str) -> None:
        """Answer a worker's question."""
        self._connection.send(self._side.give_input(job.id, request, answer, worker))

    async def subscribe(self, *topics: str, after: int = -1) -> AsyncIterator[Published]:
        """Yield events of the fabric whose topic matches, from a ledger position (-1: from now)."""
        wanted = (topics or ("*",), after)
        try:
            frames = self._side.subscribe(*wanted)
        except Unsupported:
            async for event in self._pulled(*wanted):
                yield event
            return
        self._feed = asyncio.Queue(_FEED)
        self._subscription = wanted
        self._connection.send(frames)
        while True:
            event = await self._feed.get()
            self._subscription = (self._subscription[0], event.seq)
            yield event

    async def _pulled(self, topics: tuple[str, ...], after: int) -> AsyncIterator[Published]:
        """Ask for events again and again, where the dialect has no other way."""
        while True:
            asked_at = self._now()
            asked = {"after": after, "topics": list(topics), "limit": 500, "wait": PULL_WAIT}
            try:
                timeout = PULL_WAIT + 10.0
                said = await self.call(MANAGEMENT, "events", timeout=timeout, **asked)
            except (JobFailed, StillRunning, Unreachable) as error:
                if isinstance(error, JobFailed) and error.fault.code not in _PASSING:
                    raise
                said = {"after": after, "events": []}
            for found in said["events"]:
                yield Published(found["seq"], found["topic"], found["event"])
            if not said["events"] and self._now() - asked_at < 1.0 and said["after"] == after:
                await asyncio.sleep(1.0)
            after = said["after"]

    # --- keeping in touch ---------------------------------------------------------------------

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

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
            job.asked_at, job.asks = self._now(), 0
            job.take(notice)
            if job.is_done:
                self._jobs.pop(job.id, None)

    async def _keep(self) -> None:
        """Say again what may have been lost; start anew when the broker is silent."""
        while True:
            await asyncio.sleep(_TICK)
            now = self._now()
            if self.refusal:
                self._give_up_unheard()
            late = [j for j in self._jobs.values() if now - j.asked_at >= _patience(j)]
            if not late:
                continue
            if now - self._connection.heard_at >= SILENCE:
                await self._connection.rebuild()
                self._connection.send(self._side.hello())
                if self._feed is not None:
                    self._connection.send(self._side.subscribe(*self._subscription))
            for job in late:
                job.asked_at, job.asks = now, job.asks + 1
                self._connection.send(self._again(job))

    @property
    def refusal(self) -> str:
        """Why the broker does not let this client in, if it said so; empty otherwise."""
        return self._connection.refusal

    @property
    def suspicion(self) -> str:
        """What may be wrong with a broker that does not answer; empty if there is no idea."""
        return self._connection.suspicion

    def _give_up_unheard(self) -> None:
        """End the waiting for jobs that the broker will not hear of."""
        for job in [job for job in self._jobs.values() if not job.is_acknowledged]:
            job.give_up(Refused(f"{self.endpoint}: {self.refusal}"))
            del self._jobs[job.id]

    def _again(self, job: AsyncJob) -> list[Any]:
        if not job.is_acknowledged:
            return list(self._side.submit(job.order))
        try:
            return list(self._side.ask(job.id))
        except Unsupported:
            return list(self._side.submit(job.order))


def _patience(job: AsyncJob) -> float:
    if job.is_acknowledged:
        return ASK_EVERY
    return min(RESUBMIT_AFTER * 2.0**job.asks, ASK_EVERY)


def _arguments(item: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(item, Mapping):
        return (), item
    return (item, {}) if isinstance(item, tuple) else ((item,), {})


Notify = Callable[[ClientNotice], None]
