"""Dramatiq's middleware: names that programs mention, and hooks of their own."""

from typing import Any

from dragoman.compat.hints import NotInCompat
from dragoman.model.content import Answer, Call
from dragoman.sdk.middleware import Middleware as SdkMiddleware


class DramatiqMiddleware:
    """Override what you need. Hooks get the broker and the message."""

    def before_enqueue(self, broker: Any, message: Any, delay: float | None) -> None:
        """Run before a message is sent."""

    def after_enqueue(self, broker: Any, message: Any, delay: float | None) -> None:
        """Run after a message was sent."""

    def before_process_message(self, broker: Any, message: Any) -> None:
        """Run before an actor."""

    def after_process_message(
        self, broker: Any, message: Any, *, result: Any = None, exception: Any = None
    ) -> None:
        """Run after an actor, with its result or its exception."""


class _BuiltIn(DramatiqMiddleware):
    """A middleware of Dramatiq whose work the broker or the SDK does: options are ignored."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.options = options


class AgeLimit(_BuiltIn):
    """Messages that wait too long: `max_age` of an actor."""


class TimeLimit(_BuiltIn):
    """Actors that run too long: `time_limit` of an actor."""


class Retries(_BuiltIn):
    """Actors that fail: `max_retries`, `min_backoff` and `max_backoff` of an actor."""


class ShutdownNotifications(_BuiltIn):
    """Workers that stop: a task that checks `job.is_cancelled` sees it."""


class Callbacks(_BuiltIn):
    """Not needed: use a pipeline."""


class Pipelines(_BuiltIn):
    """Pipelines are workflows of the broker."""


class CurrentMessage(_BuiltIn):
    """By name only: an actor cannot ask for its message."""

    @classmethod
    def get_current_message(cls) -> object:
        """Raise with a hint."""
        raise NotInCompat(
            "CurrentMessage.get_current_message", "pass what the actor needs as an argument"
        )


class Results(_BuiltIn):
    """Results are always kept by the broker; the backend is ignored."""


class WorkerHooks(SdkMiddleware):
    """Calls the hooks of Dramatiq's middleware around each job of a worker."""

    def __init__(self, broker: Any, make_message: Any) -> None:
        self._broker, self._message = broker, make_message

    def before_job(self, job: Any, call: Call) -> None:
        """Call `before_process_message`."""
        for each in self._broker.middleware:
            each.before_process_message(self._broker, self._message(job, call))

    def after_job(self, job: Any, call: Call, answer: Answer) -> None:
        """Call `after_process_message` with the result."""
        self._after(job, call, result=answer.value)

    def on_failure(self, job: Any, call: Call, error: BaseException) -> None:
        """Call `after_process_message` with the exception."""
        self._after(job, call, exception=error)

    def _after(self, job: Any, call: Call, **outcome: Any) -> None:
        for each in reversed(self._broker.middleware):
            each.after_process_message(self._broker, self._message(job, call), **outcome)


Middleware = DramatiqMiddleware
__all__ = [
    "AgeLimit",
    "Callbacks",
    "CurrentMessage",
    "Middleware",
    "Pipelines",
    "Results",
    "Retries",
    "ShutdownNotifications",
    "TimeLimit",
]
