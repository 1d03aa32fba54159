"""Actors and messages: functions that can also be sent, and what was sent."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, overload

from dragoman.compat.dramatiq.broker import DragomanBroker, get_broker
from dragoman.compat.dramatiq.errors import ResultFailure, ResultMissing, ResultTimeout, Retry
from dragoman.compat.failures import plain_message
from dragoman.compat.hints import PATIENT, refuse_unknown
from dragoman.model.content import Call
from dragoman.model.retry import LONGEST_WAIT, MOST_RETRIES
from dragoman.model.retry import Retry as RetryPolicy
from dragoman.sdk.client import new_id
from dragoman.sdk.compositions import Step
from dragoman.sdk.context import JobContext
from dragoman.sdk.errors import JobFailed, StillRunning
from dragoman.sdk.task_results import Permanent, TryAgain

if TYPE_CHECKING:
    from dragoman.compat.dramatiq.composition import MessagePipeline

_HINTS: Final = {
    "on_success": "write a pipeline: first | then",
    "on_failure": "use middleware: after_process_message",
    "retry_when": "use throws=..., or raise Retry(delay=...)",
    "pipe_target": "write a pipeline: first | then",
    "notify_shutdown": "check `job.is_cancelled` of the Dragoman SDK",
}
_IGNORED: Final = ("store_results", "broker", "pipe_ignore", "notify_shutdown")


@dataclass(frozen=True)
class Message:
    """A call of an actor, sent or not yet sent."""

    actor: "Actor"
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    message_id: str = field(default_factory=new_id)

    @property
    def actor_name(self) -> str:
        """The name of the actor."""
        return self.actor.actor_name

    @property
    def queue_name(self) -> str:
        """The queue, which is the service."""
        return self.actor.queue_name

    def copy(self, **changes: Any) -> "Message":
        """Return a copy with changes."""
        return replace(self, **changes)

    def __or__(self, other: "Message | MessagePipeline") -> "MessagePipeline":
        """Return a pipeline: the other one gets this one's result."""
        from dragoman.compat.dramatiq.composition import pipeline

        return pipeline([self, other])

    def get_result(self, *, block: bool = False, timeout: int | None = None, **_: object) -> Any:
        """Return the result of a message that was sent; `timeout` in milliseconds."""
        seconds = (10.0 if timeout is None else timeout / 1000) if block else 0.2
        return result_of(self.actor.broker, self.message_id, self.queue_name, seconds, block)

    def step(self) -> Step:
        """Return it as a step of a workflow."""
        step = Step(self.queue_name, self.actor_name, *self.args, **self.kwargs)
        options = self.actor.terms(self.options)
        known = {k: v for k, v in options.items() if k in ("delay", "run_timeout")}
        return step.with_options(**known)


def result_of(
    broker: DragomanBroker, job: str, service: str, seconds: float, is_blocking: bool
) -> Any:
    """Return the result of a job. Raises Dramatiq's errors."""
    try:
        return broker.connected().job(job, service).result(seconds)
    except StillRunning:
        raise (ResultTimeout if is_blocking else ResultMissing)(job) from None
    except JobFailed as error:
        raise ResultFailure(plain_message(error.fault.message)) from None


class Actor:
    """A function that can be sent: `actor.send(...)`."""

    def __init__(
        self, function: Callable[..., Any], broker: DragomanBroker, **options: Any
    ) -> None:
        self.fn = function
        self.broker = broker
        self.actor_name = str(options.pop("actor_name", None) or function.__name__)
        self.queue_name = str(options.pop("queue_name", "default"))
        self.priority = int(options.pop("priority", 0))
        self.throws = options.pop("throws", None)
        for name in _IGNORED:
            options.pop(name, None)
        self.options: dict[str, Any] = {k: options.pop(k) for k in _OPTIONS if k in options}
        refuse_unknown(f"actor {self.actor_name}", options, _HINTS)
        update_wrapper(self, function)
        broker.declare_actor(self)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the function here."""
        return self.fn(*args, **kwargs)

    def message(self, *args: object, **kwargs: object) -> Message:
        """Return a message that is not sent."""
        return Message(self, args, kwargs)

    def message_with_options(
        self,
        *,
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
        **options: object,
    ) -> Message:
        """Return a message with options that is not sent."""
        return Message(self, tuple(args), kwargs or {}, options)

    def send(self, *args: object, **kwargs: object) -> Message:
        """Send a message with these arguments."""
        return self.enqueue(self.message(*args, **kwargs))

    def send_with_options(
        self,
        *,
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
        delay: float | None = None,
        **options: object,
    ) -> Message:
        """Send a message with options; `delay` in milliseconds."""
        message = self.message_with_options(args=args, kwargs=kwargs, **options)
        return self.enqueue(message, delay)

    def enqueue(self, message: Message, delay: float | None = None) -> Message:
        """Send a message; return when the broker has it."""
        delay = message.options.get("delay", delay) if delay is None else delay
        for each in self.broker.middleware:
            each.before_enqueue(self.broker, message, delay)
        options = self.terms({**message.options, "delay": delay})
        client = self.broker.connected()
        timeout = PATIENT + float(options.get("delay", 0.0))
        call = Call(self.actor_name, message.args, message.kwargs, timeout=timeout)
        # Dramatiq runs lower numbers first.
        job = client.order(
            self.queue_name,
            call,
            job=message.message_id,
            priority=-self.priority,
            options=options,
        )
        if client.is_acknowledged and not job.wait_until_acknowledged(30.0):
            raise ConnectionError(f"the broker {client.asynchronous.endpoint} does not answer")
        for each in reversed(self.broker.middleware):
            each.after_enqueue(self.broker, message, delay)
        return message

    def terms(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the options of a job, in seconds."""
        unknown = {k: v for k, v in given.items() if k not in _OPTIONS and k not in _IGNORED}
        refuse_unknown(f"a message of {self.actor_name}", unknown, _HINTS)
        found: dict[str, Any] = {**self.options}
        found.update({k: v for k, v in given.items() if v is not None})
        terms: dict[str, Any] = {}
        for name, option in _TERMS.items():
            if found.get(name):
                terms[option] = float(found[name]) / 1000
        if any(name in given for name in ("max_retries", "min_backoff", "max_backoff")):
            policy = self.retries(found)
            terms["retries"] = {
                "times": policy.times,
                "backoff": policy.backoff,
                "longest": policy.longest,
            }
        return terms

    def retries(self, options: Mapping[str, Any] | None = None) -> RetryPolicy:
        """Return its retries: Dramatiq retries 20 times unless an actor says otherwise."""
        found = self.options if options is None else options
        most = found.get("max_retries", 20)
        times = MOST_RETRIES if most is None else min(int(most), MOST_RETRIES)
        backoff = float(found.get("min_backoff", 15_000)) / 1000
        longest = min(float(found.get("max_backoff", LONGEST_WAIT * 1000)) / 1000, LONGEST_WAIT)
        return RetryPolicy(times, backoff, longest=longest)

    def function(self) -> Callable[..., object]:
        """Return the function that a worker runs."""

        def run(dragoman_job: JobContext, *args: object, **kwargs: object) -> object:
            try:
                return self.fn(*args, **kwargs)
            except Retry as error:
                raise TryAgain((error.delay or 0) / 1000, f"Retry: {error}") from error
            except Exception as error:
                if self.throws and isinstance(error, self.throws):
                    raise Permanent(f"{type(error).__name__}: {error}") from error
                raise

        return run


#: Options of actors and messages; times are in milliseconds.
_OPTIONS: Final = (
    *("max_retries", "min_backoff", "max_backoff"),
    *("time_limit", "max_age", "delay", "result_ttl"),
)
_TERMS: Final = {
    "time_limit": "run_timeout",
    "max_age": "queue_timeout",
    "delay": "delay",
    "result_ttl": "result_ttl",
}


@overload
def actor(function: Callable[..., object], **options: Any) -> Actor: ...


@overload
def actor(**options: Any) -> Callable[[Callable[..., object]], Actor]: ...


def actor(
    function: Callable[..., object] | None = None, **options: Any
) -> Actor | Callable[[Callable[..., object]], Actor]:
    """Make a function an actor: `@dramatiq.actor` or `@dramatiq.actor(max_retries=3)`."""
    if function is None:
        return partial(_make, options=options)
    return _make(function, options)


def _make(function: Callable[..., object], options: Mapping[str, Any]) -> Actor:
    more = {name: found for name, found in options.items() if name != "broker"}
    return Actor(function, options.get("broker") or get_broker(), **more)


def message_of(job: JobContext, call: Call) -> Message:
    """Return the message that a worker processes, for middleware."""
    known = get_broker().actors.get(call.task)
    made = known or Actor(print, DragomanBroker(), actor_name=call.task)
    return Message(made, call.args, call.kwargs, {}, job.id)
