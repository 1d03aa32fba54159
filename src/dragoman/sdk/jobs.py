"""A job as its client sees it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Protocol

from dragoman.dialects.base import keyed_by_worker
from dragoman.dialects.peer_sides import (
    Chunk,
    ClientNotice,
    Dispatched,
    Finished,
    InputAsked,
    Progress,
    Published,
    Queued,
    StatusNotice,
    Submission,
)
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.target import AnyWorker, Labelled, Named
from dragoman.sdk.cancel_outcomes import FINISHED, cancel_outcome
from dragoman.sdk.errors import StillRunning, Unreachable, failure
from dragoman.sdk.large_values import content_of, is_reference

__all__ = ["AsyncJob", "Chunk", "Dispatched", "InputAsked", "Progress", "Published"]


_OPEN: Final = frozenset({JobState.QUEUED.value, JobState.RUNNING.value})


class JobClient(Protocol):
    """What a job needs of its client."""

    @property
    def connection_hint(self) -> str:
        """The likely reason why the broker does not answer; empty if unknown."""
        ...

    def cancel_job(self, job: "AsyncJob") -> None:
        """Send a cancel request."""
        ...

    async def load(self, found: object) -> Any:
        """Return the value of a reference; another value as it is."""
        ...

    async def forget_result(self, job_id: str) -> None:
        """Have the broker give the result of a finished job out no more."""
        ...

    def send_input(self, job: "AsyncJob", request: str, answer: object, worker: str) -> None:
        """Send the answer to a worker's question."""
        ...


class AsyncJob:
    """One submitted job: its events, its result, cancel and input."""

    def __init__(self, submission: Submission, client: JobClient, now: float) -> None:
        self.submission = submission
        self.id = submission.job
        #: The workers that have the job; empty until the broker names them.
        self.workers: tuple[str, ...] = ()
        #: Whether the broker acknowledged the job.
        self.is_acknowledged = False
        #: When the client last asked or heard about the job, on the loop's clock.
        self.asked_at = now
        #: How often the client has asked since it last heard.
        self.asks = 0
        #: Seconds until the client asks about a job that it did not submit; 0: it did.
        self.ask_after = 0.0
        #: Whether a large argument is still being stored; then the broker knows nothing of the job.
        self.is_being_stored = False
        self._client = client
        self._events: asyncio.Queue[ClientNotice | None] = asyncio.Queue()
        self._finished: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._cancelled: asyncio.Future[StatusNotice | Finished] | None = None
        self._acknowledged = asyncio.Event()

    @property
    def is_done(self) -> bool:
        """Whether the job has ended."""
        return self._finished.done()

    async def wait_until_acknowledged(self, at_most: float) -> bool:
        """Wait for the broker's acknowledgement; return whether it came in time."""
        try:
            async with asyncio.timeout(at_most):
                await self._acknowledged.wait()
        except TimeoutError:
            return False
        return True

    def receive(self, notice: ClientNotice) -> None:
        """Handle the broker's notice about this job."""
        self._acknowledged.set()
        if isinstance(notice, Queued | Dispatched):
            self.is_acknowledged = True
            if isinstance(notice, Dispatched) and notice.workers:
                self.workers = notice.workers
        self._answer_cancel(notice)
        if isinstance(notice, Finished):
            self._finish(notice)
        elif isinstance(notice, StatusNotice):
            self._note_denial(notice)
        else:
            self.is_acknowledged = True
            self._events.put_nowait(notice)

    def _answer_cancel(self, notice: ClientNotice) -> None:
        """Let `cancel` return. A status of an open job answers `ask`, not the cancel."""
        is_open = isinstance(notice, StatusNotice) and notice.state in _OPEN
        waiting = self._cancelled
        if (
            isinstance(notice, StatusNotice | Finished)
            and not is_open
            and waiting
            and not waiting.done()
        ):
            waiting.set_result(notice)

    def _note_denial(self, notice: StatusNotice) -> None:
        """End the wait for a job of another client if the broker denies its result."""
        is_denied = notice.code == FaultCode.DENIED
        # A denied cancel of an own job ends nothing: the job continues, and so does the wait.
        if is_denied and not self.submission.service:
            self.give_up(failure(self.id, Fault(FaultCode.DENIED, notice.detail)))

    def _finish(self, notice: Finished) -> None:
        if not self._finished.done():
            self._finished.set_result(notice)
            self._events.put_nowait(None)

    async def events(
        self,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncIterator[Progress | Chunk | InputAsked | Dispatched]:
        """Yield the job's events until it ends, or until `timeout` seconds have passed."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    notice = await self._events.get()
            except TimeoutError:
                return
            if notice is None:
                break
            if isinstance(notice, Progress | Chunk | InputAsked | Dispatched):
                yield notice
        self._events.put_nowait(None)

    async def wait(self) -> None:
        """Wait for the end, whatever it is."""
        await asyncio.wait([self._finished])

    async def answers(self, timeout: float | None = None) -> tuple[Answer, ...]:  # noqa: ASYNC109
        """Wait for the end; return every worker's answer. Raises `JobFailed` if one failed."""
        try:
            async with asyncio.timeout(timeout):
                done = await asyncio.shield(self._finished)
        except TimeoutError:
            if not self.is_acknowledged:
                text = f"job {self.id}: the broker did not answer within {timeout} s"
                hint = self._client.connection_hint
                raise Unreachable(f"{text}; {hint}" if hint else text) from None
            raise StillRunning(f"job {self.id} has not ended within {timeout} s") from None
        if done.fault is not None:
            raise failure(self.id, done.fault, done.answers)
        for answer in done.answers:
            if answer.fault is not None:
                raise failure(self.id, answer.fault, done.answers)
        return done.answers

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Wait for the result: one value, or a value by worker name if the target is several."""
        answers = await self.answers(timeout)
        if self._is_for_one:
            return await self._value(answers[0]) if answers else None
        return keyed_by_worker([(each.worker, await self._value(each)) for each in answers])

    async def _value(self, answer: Answer) -> Any:
        found = content_of(answer)
        return await self._client.load(found) if is_reference(found) else found

    async def served(self, timeout: float | None = None) -> dict[str, str]:  # noqa: ASYNC109
        """Wait for the result; return which worker served which resource, by resource.

        Workers without the Dragoman SDK cannot report this and are left out.
        """
        answers = await self.answers(timeout)
        return {name: answer.worker for answer in answers for name in answer.resources}

    @property
    def _is_for_one(self) -> bool:
        target = self.submission.target
        if isinstance(target, Named):
            return len(target.names) == 1
        return isinstance(target, AnyWorker | Labelled) and self.submission.service != "all"

    async def cancel(self, timeout: float = 10.0) -> str:  # noqa: ASYNC109
        """Cancel the job; return the outcome in words (`sdk.cancel_outcomes`).

        Raises `Denied` if the policy refuses it.
        """
        if self.is_done:
            self._raise_if_denied(self._finished.result())
            return FINISHED
        self._cancelled = asyncio.get_running_loop().create_future()
        self._client.cancel_job(self)
        try:
            async with asyncio.timeout(timeout):
                found = await self._cancelled
        except TimeoutError:
            raise Unreachable(
                f"job {self.id}: the broker did not answer the cancel within {timeout} s"
            ) from None
        if isinstance(found, Finished):
            self._raise_if_denied(found)
        elif found.code == FaultCode.DENIED:
            raise failure(self.id, Fault(FaultCode.DENIED, found.detail))
        return cancel_outcome(found)

    async def forget(self) -> None:
        """Have the broker give the result out no more; the job must have ended.

        The ledger keeps its records. What this program has read of the result stays readable.
        """
        await self._client.forget_result(self.id)

    def _raise_if_denied(self, found: Finished) -> None:
        if found.fault and found.fault.code is FaultCode.DENIED:
            raise failure(self.id, found.fault)

    def give_input(self, request: str, answer: object, worker: str = "") -> None:
        """Answer a question that came as `InputAsked`."""
        self._client.send_input(self, request, answer, worker)

    def give_up(self, error: Exception) -> None:
        """End every wait for this job with an error. The job itself continues."""
        if not self._finished.done():
            self._finished.set_exception(error)
            self._acknowledged.set()
            # Read it once: asyncio warns about exceptions that no one retrieved.
            with contextlib.suppress(Exception):
                self._finished.exception()
            self._events.put_nowait(None)


async def as_completed(jobs: Iterable[AsyncJob]) -> AsyncIterator[AsyncJob]:
    """Yield jobs as they end, whatever their end is."""
    waiting = {asyncio.ensure_future(job.wait()): job for job in jobs}
    try:
        while waiting:
            ended, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                yield waiting.pop(each)
    finally:
        for each in waiting:
            each.cancel()
