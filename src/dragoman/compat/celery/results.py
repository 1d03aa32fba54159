"""Results of tasks, with Celery's names: `AsyncResult`, `GroupResult`, states."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Final, NoReturn

from dragoman.compat.celery.exceptions import TaskRevokedError, TimeoutError
from dragoman.compat.failures import plain_message, rebuild
from dragoman.compat.hints import NotInCompat
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.client import MANAGEMENT
from dragoman.sdk.errors import Cancelled, Expired, JobFailed, StillRunning

if TYPE_CHECKING:
    from dragoman.compat.celery.app import Celery

PENDING: Final = "PENDING"
STARTED: Final = "STARTED"
RETRY: Final = "RETRY"
SUCCESS: Final = "SUCCESS"
FAILURE: Final = "FAILURE"
REVOKED: Final = "REVOKED"
READY_STATES: Final = frozenset({SUCCESS, FAILURE, REVOKED})
#: States of jobs and Celery's names for them.
_STATES: Final = {
    "succeeded": SUCCESS,
    "failed": FAILURE,
    "dead": FAILURE,
    "cancelled": REVOKED,
    "expired": REVOKED,
}


#: Return the client of an app, the newest app last.
app_clients: list[Callable[[], Client]] = []


def newest_client() -> Callable[[], Client]:
    """Return what connects the newest app."""
    if not app_clients:
        raise RuntimeError("there is no app yet: write app = Celery(...) first")
    return app_clients[-1]


class AsyncResult:
    """The result of one task, by its id."""

    def __init__(
        self,
        id: str,
        connected: Callable[[], Client] | None = None,
        job: Job | None = None,
        service: str = "",
        app: "Celery | None" = None,
    ) -> None:
        """Prepare. Without an app, the newest one of this program is used."""
        self.id = id
        self.task_id = id
        self._connected = connected or (app.connected if app is not None else newest_client())
        self._job = job
        self._service = service

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def job(self) -> Job:
        """Dragoman's own job: its events, input and cancel."""
        if self._job is None:
            self._job = self._connected().job(self.id, self._service)
        return self._job

    def get(self, timeout: float | None = None, propagate: bool = True, **_: object) -> Any:
        """Wait for the result; raise what the task raised, or return it with `propagate=False`."""
        try:
            return self.job.result(timeout)
        except StillRunning:
            raise TimeoutError("The operation timed out.") from None
        except JobFailed as error:
            found = _exception(error)
            if propagate:
                raise found from None
            return found

    wait = get

    def _shown(self) -> dict[str, Any]:
        """Return what the broker says of the job; nothing if it knows none, or may not tell."""
        with contextlib.suppress(JobFailed):
            found = self._connected().options(timeout=30).call(MANAGEMENT, "show_job", self.id)
            return found or {}
        return {}

    @property
    def state(self) -> str:
        """The state in Celery's words; PENDING also if the broker does not know the task."""
        shown = self._shown()
        state = str(shown.get("state", ""))
        if state == "queued" and shown.get("attempts"):
            return RETRY
        return STARTED if state == "running" else _STATES.get(state, PENDING)

    status = state

    def ready(self) -> bool:
        """Whether the task has ended."""
        return (self._job is not None and self._job.is_done) or self.state in READY_STATES

    def successful(self) -> bool:
        """Whether the task has ended with a result."""
        return self.state == SUCCESS

    def failed(self) -> bool:
        """Whether the task has failed."""
        return self.state == FAILURE

    @property
    def result(self) -> Any:
        """The result, or the exception, of a task that has ended; else None."""
        return self.get(timeout=30, propagate=False) if self.ready() else None

    info = result

    @property
    def traceback(self) -> str | None:
        """The exception and the task's own lines, as text; None if it did not fail."""
        return plain_message(str(self._shown().get("detail", ""))) if self.failed() else None

    def revoke(self, terminate: bool = False, **_: object) -> None:
        """Cancel the task: the broker withdraws it, or asks its worker to stop it."""
        self.job.cancel()

    def forget(self) -> None:
        """Remove the result."""
        raise NotInCompat("AsyncResult.forget", "the broker's retention removes results")

    @property
    def parent(self) -> NoReturn:
        """Not there: a chain is one job with child jobs."""
        raise NotInCompat("AsyncResult.parent", "`dragoman why JOB` shows the steps of a chain")

    @property
    def children(self) -> NoReturn:
        """Not there: a chain is one job with child jobs."""
        raise NotInCompat("AsyncResult.children", "`dragoman why JOB` shows the child jobs")


def _exception(error: JobFailed) -> Exception:
    if isinstance(error, Cancelled | Expired):
        return TaskRevokedError(plain_message(error.fault.message))
    return rebuild(error.fault)


class EagerResult(AsyncResult):
    """The result of a task that ran here, by `apply`."""

    def __init__(self, id: str, value: object, error: Exception | None = None) -> None:
        super().__init__(id, _no_client)
        self._value, self._error = value, error

    def get(self, timeout: float | None = None, propagate: bool = True, **_: object) -> Any:
        """Return the result; raise what the task raised, or return it with `propagate=False`."""
        if self._error is not None and propagate:
            raise self._error
        return self._error or self._value

    wait = get

    @property
    def result(self) -> Any:
        """The result, or the exception."""
        return self._error or self._value

    @property
    def state(self) -> str:
        """SUCCESS or FAILURE."""
        return FAILURE if self._error else SUCCESS

    status = state

    def ready(self) -> bool:
        """Return True: it has run."""
        return True

    def successful(self) -> bool:
        """Whether it raised nothing."""
        return self._error is None

    def failed(self) -> bool:
        """Whether it raised."""
        return self._error is not None

    @property
    def traceback(self) -> str | None:
        """The exception with its lines, as text; None if it raised nothing."""
        return None if self._error is None else "".join(format_exception(self._error))

    def revoke(self, terminate: bool = False, **_: object) -> None:
        """Do nothing: it has run."""


def _no_client() -> NoReturn:
    raise NotInCompat("the job of a task that ran here", "submit the task with apply_async")


class GroupResult(Sequence[Any]):
    """The results of a group, in its order."""

    def __init__(self, results: "Sequence[AsyncResult | GroupResult]") -> None:
        self.results = list(results)

    def __getitem__(self, index: int | slice) -> Any:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def get(self, timeout: float | None = None, propagate: bool = True, **_: object) -> list[Any]:
        """Wait for all; return their results in order."""
        return [each.get(timeout=timeout, propagate=propagate) for each in self.results]

    join = get

    def ready(self) -> bool:
        """Whether all have ended."""
        return all(each.ready() for each in self.results)

    def successful(self) -> bool:
        """Whether all have ended with a result."""
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        """Whether one has failed."""
        return any(each.failed() for each in self.results)

    def completed_count(self) -> int:
        """Return how many have ended with a result."""
        return sum(each.successful() for each in self.results)

    def revoke(self, **_: object) -> None:
        """Cancel all."""
        for each in self.results:
            each.revoke()
