"""A job as its client sees it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

from dragoman.dialects.base import keyed_by_worker
from dragoman.dialects.peer_sides import (
    Chunk,
    ClientNotice,
    Dispatched,
    Finished,
    InputAsked,
    Progress,
    Queued,
    StatusNotice,
    Submission,
)
from dragoman.model.content import Answer
from dragoman.model.job import JobState
from dragoman.model.target import AnyWorker, Labelled, Named
from dragoman.sdk.errors import StillRunning, Unreachable, failure

__all__ = ["AsyncJob", "Chunk", "Dispatched", "InputAsked", "Progress"]


_OPEN: Final = frozenset({JobState.QUEUED.value, JobState.RUNNING.value})


class JobClient(Protocol):
    """What a job needs of its client: to say something about itself."""

    @property
    def suspicion(self) -> str:
        """What may be wrong with a broker that does not answer; empty if there is no idea."""
        ...

    def cancel_job(self, job: "AsyncJob") -> None:
        """Ask the broker to stop the job."""
        ...

    def send_input(self, job: "AsyncJob", request: str, answer: Any, worker: str) -> None:
        """Answer a worker's question."""
        ...


class AsyncJob:
    """One submitted job: its events, its result, and ways to influence it."""

    def __init__(self, order: Submission, client: JobClient, now: float) -> None:
        self.order = order
        self.id = order.job
        #: Whom it went to, once known.
        self.workers: tuple[str, ...] = ()
        #: Whether the broker said that it has the job.
        self.is_acknowledged = False
        self.asked_at = now
        self.asks = 0
        self._client = client
        self._events: asyncio.Queue[ClientNotice | None] = asyncio.Queue()
        self._finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._standing: asyncio.Future[StatusNotice | Finished] | None = None
        self._acknowledged = asyncio.Event()

    @property
    def is_done(self) -> bool:
        """Whether the job has ended."""
        return self._finished.done()

    async def wait_until_acknowledged(self, at_most: float) -> bool:
        """Wait until the broker has said that it has the job; tell whether it did."""
        try:
            async with asyncio.timeout(at_most):
                await self._acknowledged.wait()
        except TimeoutError:
            return False
        return True

    def take(self, notice: ClientNotice) -> None:
        """Take in what the broker says about this job."""
        self._acknowledged.set()
        if isinstance(notice, Queued | Dispatched):
            self.is_acknowledged = True
            if isinstance(notice, Dispatched) and notice.workers:
                self.workers = notice.workers
        self._answer_cancel(notice)
        if isinstance(notice, Finished):
            self._finish(notice)
        elif not isinstance(notice, StatusNotice):
            self.is_acknowledged = True
            self._events.put_nowait(notice)

    def _answer_cancel(self, notice: ClientNotice) -> None:
        """Let `cancel` return; that the job still waits or runs only answers a question."""
        is_open = isinstance(notice, StatusNotice) and notice.state in _OPEN
        asked = self._standing
        if (
            isinstance(notice, StatusNotice | Finished)
            and not is_open
            and asked
            and not asked.done()
        ):
            asked.set_result(notice)

    def _finish(self, notice: Finished) -> None:
        if not self._finished.done():
            self._finished.set_result(notice)
            self._events.put_nowait(None)

    async def events(self) -> AsyncIterator[Progress | Chunk | InputAsked | Dispatched]:
        """Yield what happens to the job until it ends."""
        while (notice := await self._events.get()) is not None:
            if isinstance(notice, Progress | Chunk | InputAsked | Dispatched):
                yield notice
        self._events.put_nowait(None)

    async def answers(self, timeout: float | None = None) -> tuple[Answer, ...]:  # noqa: ASYNC109
        """Wait for the job to end; return every worker's answer. Raises if it did not succeed."""
        try:
            async with asyncio.timeout(timeout):
                done = await asyncio.shield(self._finished)
        except TimeoutError:
            if not self.is_acknowledged:
                words = f"job {self.id}: the broker did not answer within {timeout} s"
                hint = self._client.suspicion
                raise Unreachable(f"{words}; {hint}" if hint else words) from None
            raise StillRunning(f"job {self.id} has not ended within {timeout} s") from None
        if done.fault is not None:
            raise failure(self.id, done.fault, done.answers)
        for answer in done.answers:
            if answer.fault is not None:
                raise failure(self.id, answer.fault, done.answers)
        return done.answers

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Wait for the result: a value, or with several workers a value by worker name."""
        answers = await self.answers(timeout)
        if self._is_for_one:
            return _value(answers[0]) if answers else None
        return keyed_by_worker((answer.worker, _value(answer)) for answer in answers)

    async def served(self, timeout: float | None = None) -> dict[str, str]:  # noqa: ASYNC109
        """Wait for the result; return which worker served which resource, by resource.

        Workers that cannot say so (of another make, over their own dialect) are left out.
        """
        answers = await self.answers(timeout)
        return {name: answer.worker for answer in answers for name in answer.resources}

    @property
    def _is_for_one(self) -> bool:
        target = self.order.target
        if isinstance(target, Named):
            return len(target.names) == 1
        return isinstance(target, AnyWorker | Labelled) and self.order.service != "all"

    async def cancel(self, timeout: float = 10.0) -> str:  # noqa: ASYNC109
        """Ask for the job to stop; return what became of it, in words."""
        if self.is_done:
            return "already finished"
        self._standing = asyncio.get_running_loop().create_future()
        self._client.cancel_job(self)
        try:
            async with asyncio.timeout(timeout):
                found = await self._standing
        except TimeoutError:
            raise Unreachable(f"job {self.id}: no answer to the cancel in {timeout} s") from None
        if isinstance(found, StatusNotice):
            return found.detail or found.state
        return (found.fault.message or found.fault.code) if found.fault else "finished"

    def give_input(self, request: str, answer: Any, worker: str = "") -> None:
        """Answer a question that came as `InputAsked`."""
        self._client.send_input(self, request, answer, worker)

    def give_up(self, error: Exception) -> None:
        """End the waiting on this side."""
        if not self._finished.done():
            self._finished.set_exception(error)
            self._acknowledged.set()
            # Nobody may be waiting; that is no reason for a warning.
            with contextlib.suppress(Exception):
                self._finished.exception()
            self._events.put_nowait(None)


def _value(answer: Answer) -> Any:
    return answer.raw if answer.raw is not None else answer.value
