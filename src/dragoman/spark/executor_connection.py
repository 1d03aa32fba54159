"""The connection of an executor process to the broker. It is kept from task to task.

Spark's Python workers are processes that run one task after another. What they keep must live in
an imported module, not in the pickled task.
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
#: The broker did not accept the job: the same id may be submitted again.
REFUSED: Final = frozenset(
    {FaultCode.QUEUE_FULL, FaultCode.NO_WORKER, FaultCode.DRAINING, FaultCode.UNAVAILABLE}
)
#: The job ended and definitely did not run: a new attempt needs a new id.
UNRUN: Final = frozenset({FaultCode.QUEUE_TIMEOUT, FaultCode.HANDED_BACK, FaultCode.UNDELIVERED})
#: Seconds that an answer may take beyond the job's own deadline.
MARGIN: Final = 10.0
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0


@value
class CallTerms:
    """The options of calls."""

    service: str
    target: str = "any"
    priority: int = 0
    #: Seconds from submission to the end of the job.
    timeout: float = 600.0
    #: Maximum open calls.
    window: int = 128
    #: How often a call that definitely did not run is repeated.
    retries: int = 5


class ExecutorConnection:
    """This process's connection to one broker."""

    def __init__(self, url: str, credentials: Credentials | None = None) -> None:
        self._client = Client(url, credentials=credentials)
        self._is_keyed = self._client.asynchronous.endpoint.dialect in KEYED

    def call_all(self, calls: Sequence[tuple[str, Call]], terms: CallTerms) -> list[Any]:
        """Make calls by id; return a value or a `Failure` for each, in order.

        Calls with the same id are one call.
        """
        distinct = dict(calls)
        found = self._client.portal.wait(self._run_window(list(distinct.items()), terms))
        return [found[call_id] for call_id, _ in calls]

    async def _run_window(
        self, calls: list[tuple[str, Call]], terms: CallTerms
    ) -> dict[str, object]:
        """Keep `window` calls open until all of them have ended."""
        found: dict[str, object] = {}
        waiting = iter(calls)
        count = min(terms.window, len(calls))
        await asyncio.gather(*(self._run_calls(waiting, terms, found) for _ in range(count)))
        return found

    async def _run_calls(
        self, waiting: Iterator[tuple[str, Call]], terms: CallTerms, found: dict[str, object]
    ) -> None:
        for call_id, call in waiting:
            found[call_id] = await self._outcome(call_id, call, terms)

    async def _outcome(self, call_id: str, call: Call, terms: CallTerms) -> object:
        """Make one call; repeat it if it definitely did not run."""
        attempt_id = call_id
        for attempt in range(1, terms.retries + 2):
            try:
                return await self._value(attempt_id, call, terms)
            except JobFailed as error:
                if attempt > terms.retries or error.fault.code not in REFUSED | UNRUN:
                    return Failure(error.fault.code, error.fault.message, error.fault.is_definite)
                if error.fault.code in UNRUN:
                    attempt_id = next_id(call_id, attempt)
                await asyncio.sleep(min(_PAUSE * 2.0**attempt, _LONGEST_PAUSE))
            except StillRunning as error:
                return Failure("no_answer", str(error), False)
            except Refused as error:
                # Not definite: the key may have been revoked after the job was accepted.
                return Failure("refused", str(error), False)
            except DragomanError as error:
                return Failure("unreachable", str(error), False)
            except (Unmappable, Unsupported) as error:
                return Failure(FaultCode.UNMAPPABLE, str(error), True)
        raise AssertionError("the last attempt returns")

    async def _value(self, attempt_id: str, call: Call, terms: CallTerms) -> object:
        client = self._client.asynchronous
        key = attempt_id if self._is_keyed else ""
        job: AsyncJob | None = None
        try:
            job = client.order(
                terms.service, call, terms.target, priority=terms.priority, key=key, job=attempt_id
            )
            return await job.result(terms.timeout + MARGIN)
        finally:
            _forget(client, job)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def _forget(client: AsyncClient, job: AsyncJob | None) -> None:
    if job is not None and not job.is_done:
        client.forget(job)


class NoConnection:
    """Stands in where the executor has no credentials: every call has the same fault."""

    def __init__(self, reason: str) -> None:
        self._fault = Failure(NO_CREDENTIALS, reason, True)

    def call_all(self, calls: Sequence[tuple[str, Call]], terms: CallTerms) -> list[Any]:
        """Return the fault for each call; send nothing."""
        return [self._fault for _ in calls]


#: Process id, URL of the broker, reference to the credentials.
_Key: TypeAlias = tuple[int, str, str]
_CONNECTIONS: Final[dict[_Key, tuple[tuple[int, ...], ExecutorConnection]]] = {}


def connection_to(url: str, credentials: str = "") -> ExecutorConnection | NoConnection:
    """Return this process's connection to a broker; a forked process makes its own.

    `credentials` is a reference. If its file was replaced, the connection is made again.
    """
    key = (os.getpid(), url, credentials)
    try:
        stamp = stamp_of(credentials)
        if key in _CONNECTIONS and _CONNECTIONS[key][0] != stamp:
            _CONNECTIONS.pop(key)[1].close()
        if key not in _CONNECTIONS:
            _CONNECTIONS[key] = stamp, ExecutorConnection(url, open_credentials(credentials))
    except CredentialsMissing as error:
        return NoConnection(str(error))
    return _CONNECTIONS[key][1]


def close_connections() -> None:
    """Close this process's connections, for tests and for programs that continue without Spark."""
    for key in [each for each in _CONNECTIONS if each[0] == os.getpid()]:
        _CONNECTIONS.pop(key)[1].close()
