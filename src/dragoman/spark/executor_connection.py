"""The line to the broker: one for each process, kept from task to task, and many calls at a time.

Spark's Python workers are processes that serve one task after another. What they keep must be in a
module that is imported, not in what is pickled with the task: hence this one.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from dragoman.dialects.peer_sides import Unsupported
from dragoman.model.content import Call, Unmappable
from dragoman.model.fault import FaultCode
from dragoman.model.value import value
from dragoman.sdk.blocking import Client
from dragoman.sdk.client import AsyncClient
from dragoman.sdk.credentials import Credentials
from dragoman.sdk.errors import DragomanError, JobFailed, Refused, StillRunning
from dragoman.sdk.jobs import AsyncJob
from dragoman.spark.credentials import (
    NO_CREDENTIALS,
    CredentialsMissing,
    open_credentials,
    stamp_of,
)
from dragoman.spark.keys import next_id
from dragoman.spark.rows import Failure

#: Dialects that carry an idempotency key.
KEYED: Final = frozenset({"nfp", "http"})
#: The broker did not take the job in: the same id may be asked again.
REFUSED: Final = frozenset({FaultCode.QUEUE_FULL, FaultCode.NO_WORKER, FaultCode.DRAINING})
#: The job is over and surely did not run: only another id is another chance.
UNRUN: Final = frozenset({FaultCode.QUEUE_TIMEOUT, FaultCode.HANDED_BACK, FaultCode.UNDELIVERED})
#: What an answer may take beyond the job's own deadline.
MARGIN: Final = 10.0
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


@value
class CallTerms:
    """How calls are made: everything about them that is not their content."""

    service: str
    target: str = "any"
    priority: int = 0
    #: Seconds from asking to the end of the job.
    timeout: float = 600.0
    #: Calls that wait for their answers at a time.
    window: int = 128
    #: How often a call that surely did not run is made again.
    retries: int = 5


class ExecutorConnection:
    """A connection of this process to one broker."""

    def __init__(self, url: str, credentials: Credentials | None = None) -> None:
        self._client = Client(url, credentials=credentials)
        self._is_keyed = self._client.asynchronous.endpoint.dialect in KEYED

    def call_all(self, calls: Sequence[tuple[str, Call]], terms: CallTerms) -> list[Any]:
        """Make calls, each under its id; return a value or a `Failure` for each, in order.

        Calls with the same id are one call.
        """
        unlike = dict(calls)
        found = self._client.portal.wait(self._pump(list(unlike.items()), terms))
        return [found[call_id] for call_id, _ in calls]

    async def _pump(self, calls: list[tuple[str, Call]], terms: CallTerms) -> dict[str, Any]:
        """Keep a window of calls open until all of them have ended."""
        found: dict[str, Any] = {}
        waiting = iter(calls)
        lanes = min(terms.window, len(calls))
        await asyncio.gather(*(self._lane(waiting, terms, found) for _ in range(lanes)))
        return found

    async def _lane(
        self, waiting: Iterator[tuple[str, Call]], terms: CallTerms, found: dict[str, Any]
    ) -> None:
        for call_id, call in waiting:
            found[call_id] = await self._outcome(call_id, call, terms)

    async def _outcome(self, call_id: str, call: Call, terms: CallTerms) -> Any:
        """Make one call, again if it surely did not run."""
        asked_as = call_id
        for attempt in range(1, terms.retries + 2):
            try:
                return await self._value(asked_as, call, terms)
            except JobFailed as error:
                if attempt > terms.retries or error.fault.code not in REFUSED | UNRUN:
                    return Failure(error.fault.code, error.fault.message, error.fault.is_definite)
                if error.fault.code in UNRUN:
                    asked_as = next_id(call_id, attempt)
                await asyncio.sleep(min(_PAUSE * 2.0**attempt, _LONGEST_PAUSE))
            except StillRunning as error:
                return Failure("no_answer", str(error), False)
            except Refused as error:
                # It may be that the key was revoked after the job was taken in.
                return Failure("refused", str(error), False)
            except DragomanError as error:
                return Failure("unreachable", str(error), False)
            except (Unmappable, Unsupported) as error:
                return Failure(FaultCode.UNMAPPABLE, str(error), True)
        raise AssertionError("the last attempt returns")

    async def _value(self, asked_as: str, call: Call, terms: CallTerms) -> Any:
        client = self._client.asynchronous
        key = asked_as if self._is_keyed else ""
        job: AsyncJob | None = None
        try:
            job = client.order(
                terms.service, call, terms.target, priority=terms.priority, key=key, job=asked_as
            )
            return await job.result(terms.timeout + MARGIN)
        finally:
            _forget(client, job)

    def close(self) -> None:
        """Let go."""
        self._client.close()


def _forget(client: AsyncClient, job: AsyncJob | None) -> None:
    if job is not None and not job.is_done:
        client.forget(job)


class NoConnection:
    """Stands for a line that cannot be had: every call has the same fault."""

    def __init__(self, reason: str) -> None:
        self._fault = Failure(NO_CREDENTIALS, reason, True)

    def call_all(self, calls: Sequence[tuple[str, Call]], terms: CallTerms) -> list[Any]:
        """Return the fault for each call; nothing is sent."""
        return [self._fault for _ in calls]


#: Process, broker, and where its credentials are.
_Own: TypeAlias = tuple[int, str, str]
_LINES: Final[dict[_Own, tuple[tuple[int, ...], ExecutorConnection]]] = {}


def connection_to(url: str, credentials: str = "") -> ExecutorConnection | NoConnection:
    """Return this process's line to a broker; a forked process makes its own.

    `credentials` says where they are; a file that was replaced since is read again.
    """
    own = (os.getpid(), url, credentials)
    try:
        stamp = stamp_of(credentials)
        if own in _LINES and _LINES[own][0] != stamp:
            _LINES.pop(own)[1].close()
        if own not in _LINES:
            _LINES[own] = stamp, ExecutorConnection(url, open_credentials(credentials))
    except CredentialsMissing as error:
        return NoConnection(str(error))
    return _LINES[own][1]


def close_connections() -> None:
    """Close this process's lines; for tests and for programs that go on without Spark."""
    for own in [each for each in _LINES if each[0] == os.getpid()]:
        _LINES.pop(own)[1].close()
