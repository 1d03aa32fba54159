"""Dramatiq's middleware: names that programs mention, and hooks of their own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.compat.hints import NotInCompat
from dragoman.model.content import Answer, Call
from dragoman.sdk.context import JobContext
from dragoman.sdk.middleware import Middleware as SdkMiddleware

if TYPE_CHECKING:
    from dragoman.compat.dramatiq.actors import Message
    from dragoman.compat.dramatiq.broker import DragomanBroker


class DramatiqMiddleware:
    """Override what you need. Hooks get the broker and the message."""

    def before_enqueue(
        self, broker: "DragomanBroker", message: "Message", delay: float | None
    ) -> None:
        """Run before a message is sent."""

    def after_enqueue(
        self, broker: "DragomanBroker", message: "Message", delay: float | None
    ) -> None:
        """Run after a message was sent."""

    def before_process_message(self, broker: "DragomanBroker", message: "Message") -> None:
        """Run before an actor."""

    def after_process_message(
        self,
        broker: "DragomanBroker",
        message: "Message",
        *,
        result: object = None,
        exception: BaseException | None = None,
    ) -> None:
        """Run after an actor, with its result or its exception."""


class _BuiltIn(DramatiqMiddleware):
    """A middleware of Dramatiq whose work the broker or the SDK does: options are ignored."""

    def __init__(self, *args: object, **options: object) -> None:
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

    def __init__(
        self, broker: "DragomanBroker", make_message: "Callable[[JobContext, Call], Message]"
    ) -> None:
        self._broker, self._message = broker, make_message

    def before_job(self, job: JobContext, call: Call) -> None:
        """Call `before_process_message`."""
        for each in self._broker.middleware:
            each.before_process_message(self._broker, self._message(job, call))

    def after_job(self, job: JobContext, call: Call, answer: Answer) -> None:
        """Call `after_process_message` with the result."""
        self._after(job, call, answer.value)

    def on_failure(self, job: JobContext, call: Call, error: BaseException) -> None:
        """Call `after_process_message` with the exception."""
        self._after(job, call, None, error)

    def _after(
        self, job: JobContext, call: Call, result: object, error: BaseException | None = None
    ) -> None:
        for each in reversed(self._broker.middleware):
            message = self._message(job, call)
            each.after_process_message(self._broker, message, result=result, exception=error)


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
