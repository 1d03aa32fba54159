"""Tasks of a Celery app: functions that can also be submitted."""

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import update_wrapper
from time import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from dragoman.compat.celery.canvas import Signature
from dragoman.compat.celery.exceptions import Ignore, Reject
from dragoman.compat.celery.results import AsyncResult, EagerResult
from dragoman.compat.hints import PATIENT, NotInCompat, refuse_unknown
from dragoman.model.retry import LONGEST_WAIT, MOST_RETRIES, Retry
from dragoman.sdk.client import new_id
from dragoman.sdk.context import JobContext
from dragoman.sdk.task_results import Permanent, TryAgain, describe

if TYPE_CHECKING:
    from dragoman.compat.celery.app import Celery

_CALL_HINTS: Final = {
    "link": "write a chain: first | then",
    "link_error": "use middleware: `Middleware.on_failure`",
    "chord": "write chord(header)(body)",
    "exchange": "a queue is a service: queue='name'",
    "routing_key": "a queue is a service: queue='name'",
    "compression": "bodies are not compressed; remove it",
}
#: Options of a call that mean nothing here.
_CALL_IGNORED: Final = ("ignore_result", "retry", "retry_policy", "shadow", "soft_time_limit")
_TASK_IGNORED: Final = (
    *("ignore_result", "acks_late", "track_started", "store_errors_even_if_ignored"),
    *("reject_on_worker_lost", "send_events", "trail", "typing", "soft_time_limit"),
)
_TASK_HINTS: Final = {
    "rate_limit": "set it in the broker: [services.NAME.tasks.TASK] rate = 10",
    "base": "a base class of tasks has no meaning here; use middleware or a lifespan",
    "pydantic": "annotate with dataclasses, and use `Worker.task`",
}
_SERIALIZERS: Final = frozenset({None, "json", "msgpack", "yaml"})


@dataclass(frozen=True)
class Request:
    """The task that runs now: `self.request`."""

    id: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    hostname: str = ""
    context: JobContext | None = None

    @property
    def retries(self) -> NoReturn:
        """Not there: the broker counts attempts."""
        raise NotInCompat(
            "request.retries",
            "the broker counts attempts; use retry_backoff, or `Retry` of the Dragoman SDK",
        )


_current: ContextVar[Request | None] = ContextVar("celery request", default=None)


class CeleryTask:
    """A task: call it here, or submit it with `delay` and `apply_async`."""

    def __init__(self, app: "Celery", function: Callable[..., Any], **options: Any) -> None:
        self.app = app
        self.run = function
        self.name = str(options.pop("name", None) or f"{function.__module__}.{function.__name__}")
        self.is_bound = bool(options.pop("bind", False))
        self.queue: str | None = options.pop("queue", None)
        self.max_retries: int | None = options.pop("max_retries", 3)
        self.default_retry_delay = float(options.pop("default_retry_delay", 180.0))
        self.autoretry_for = tuple(options.pop("autoretry_for", ()))
        self.retry_backoff = options.pop("retry_backoff", False)
        self.retry_backoff_max = float(options.pop("retry_backoff_max", 600.0))
        self.retry_jitter = bool(options.pop("retry_jitter", True))
        self.retry_kwargs = dict(options.pop("retry_kwargs", {}))
        self.time_limit: float | None = options.pop("time_limit", None)
        self.priority: int | None = options.pop("priority", None)
        _check_serializer(options.pop("serializer", None))
        for name in _TASK_IGNORED:
            options.pop(name, None)
        refuse_unknown(f"task {self.name}", options, _TASK_HINTS)
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the function here."""
        return self.run(self, *args, **kwargs) if self.is_bound else self.run(*args, **kwargs)

    # --- submitting ---------------------------------------------------------------------------

    def delay(self, *args: object, **kwargs: object) -> AsyncResult:
        """Submit the task with these arguments."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Iterable[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        task_id: str | None = None,
        *,
        countdown: float | None = None,
        eta: datetime | None = None,
        expires: float | datetime | timedelta | None = None,
        queue: str | None = None,
        priority: int | None = None,
        time_limit: float | None = None,
        serializer: str | None = None,
        **options: object,
    ) -> AsyncResult:
        """Submit the task; return its result's handle."""
        _check_serializer(serializer)
        for name in _CALL_IGNORED:
            options.pop(name, None)
        refuse_unknown("apply_async", options, _CALL_HINTS)
        if self.app.conf.task_always_eager:
            return self.apply(args, kwargs, task_id)
        service = self.queue_for({"queue": queue})
        limit = time_limit or self.time_limit or self.app.conf.task_time_limit
        delay = max(countdown or 0.0, eta.timestamp() - time() if eta else 0.0)
        more = {
            "delay": float(countdown or 0.0),
            "at": eta.timestamp() if eta else 0.0,
            "run_timeout": limit and float(limit),
            "queue_timeout": _expiry(expires, delay),
            "result_ttl": _seconds(self.app.conf.result_expires),
        }
        job = self.app.submit(
            service,
            self.name,
            tuple(args or ()),
            dict(kwargs or {}),
            job=task_id,
            priority=self._priority(priority),
            timeout=PATIENT + delay,
            options={name: found for name, found in more.items() if found},
        )
        return AsyncResult(job.id, self.app.connected, job, service)

    def _priority(self, given: int | None) -> int:
        found = given if given is not None else self.priority
        return int(self.app.conf.task_default_priority if found is None else found)

    def queue_for(self, options: Mapping[str, object]) -> str:
        """Return the queue, which is the service, of a call."""
        return str(options.get("queue") or self.queue or self.app.route(self.name))

    def apply(
        self,
        args: Iterable[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        task_id: str | None = None,
    ) -> EagerResult:
        """Run the task here; return its result as one of a task."""
        request = Request(task_id or new_id(), tuple(args or ()), dict(kwargs or {}), "here")
        token = _current.set(request)
        try:
            return EagerResult(request.id, self(*request.args, **request.kwargs))
        except Exception as error:
            if self.app.conf.task_eager_propagates:
                raise
            return EagerResult(request.id, None, error)
        finally:
            _current.reset(token)

    # --- signatures ---------------------------------------------------------------------------

    def s(self, *args: object, **kwargs: object) -> Signature:
        """Return a signature with these arguments."""
        return Signature(self, args, kwargs)

    def si(self, *args: object, **kwargs: object) -> Signature:
        """Return a signature that takes no result of a task before it."""
        return Signature(self, args, kwargs, immutable=True)

    def signature(
        self,
        args: Iterable[object] | None = (),
        kwargs: Mapping[str, object] | None = None,
        immutable: bool = False,
        **options: object,
    ) -> Signature:
        """Return a signature with arguments and options."""
        return Signature(self, tuple(args or ()), kwargs or {}, options, immutable)

    subtask = signature

    def map(self, items: object) -> NoReturn:
        """Not there."""
        raise NotInCompat("Task.map", "write group(task.s(item) for item in items)")

    starmap = chunks = map

    # --- while it runs ------------------------------------------------------------------------

    @property
    def request(self) -> Request:
        """The task that runs now."""
        return _current.get() or Request("", (), {})

    def update_state(self, task_id: object = None, state: str = "", meta: object = None) -> None:
        """Report progress: the submitter reads it with `result.job.events()`."""
        if (context := self.request.context) is not None:
            context.progress({"state": state, "meta": meta})

    def retry(
        self,
        args: Iterable[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        exc: BaseException | None = None,
        countdown: float | None = None,
        eta: datetime | None = None,
        max_retries: int | None = None,
        throw: bool = True,
        **options: object,
    ) -> NoReturn:
        """Run the task again later: raises, so that the broker retries it."""
        if args is not None or kwargs is not None:
            raise NotInCompat("retry with other arguments", "submit a new task")
        if max_retries is not None and max_retries != self.max_retries:
            raise NotInCompat("max_retries of retry", f"@app.task(max_retries={max_retries})")
        wait = eta.timestamp() - time() if eta else countdown
        wait = self.default_retry_delay if wait is None else max(float(wait), 0.0)
        reason = describe(exc) if exc is not None else "MaxRetriesExceededError: asked to retry"
        raise TryAgain(min(wait, LONGEST_WAIT), reason) from exc

    # --- in the worker ------------------------------------------------------------------------

    def retries(self) -> Retry:
        """Return the retries that its worker announces; none if it never asks for any."""
        if not self.is_bound and not self.autoretry_for:
            return Retry(0)
        most = self.retry_kwargs.get("max_retries", self.max_retries)
        times = MOST_RETRIES if most is None else int(most)
        if not self.retry_backoff:
            wait = float(self.retry_kwargs.get("countdown", self.default_retry_delay))
            return Retry(times, wait, factor=1.0, longest=LONGEST_WAIT)
        jitter = 1.0 if self.retry_jitter else 0.0
        return Retry(times, float(self.retry_backoff), 2.0, self.retry_backoff_max, jitter)

    def function(self) -> Callable[..., object]:
        """Return the function that a worker runs."""

        def run(dragoman_job: JobContext, *args: object, **kwargs: object) -> object:
            request = Request(dragoman_job.id, args, kwargs, dragoman_job.service, dragoman_job)
            token = _current.set(request)
            try:
                return self(*args, **kwargs)
            except Ignore:
                return None
            except Reject as error:
                raise Permanent(f"rejected: {error}") from None
            finally:
                _current.reset(token)

        return run


def _check_serializer(name: str | None) -> None:
    if name not in _SERIALIZERS:
        raise NotInCompat(f"the serializer {name!r}", "arguments are JSON values and bytes")


def _seconds(span: float | timedelta | None) -> float | None:
    return span.total_seconds() if isinstance(span, timedelta) else span


def _expiry(expires: float | datetime | timedelta | None, delay: float) -> float | None:
    """Return how long a task may wait once it may start."""
    if expires is None:
        return None
    if isinstance(expires, datetime):
        seconds = expires.timestamp() - time()
    else:
        seconds = _seconds(expires) or 0.0
    return max(seconds - delay, 0.001)
