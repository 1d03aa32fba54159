"""How a task ends: its result as a value that dialects can carry, its exception as a fault.

Whatever a task returns or raises ends its job. A fault names the exception, its message and the
lines of the user's own code; the whole traceback, with the paths of this machine, goes to the log.
"""

import asyncio
import inspect
import sysconfig
import traceback
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.retry import PERMANENT, try_again_text
from dragoman.sdk.errors import JobFailed

if TYPE_CHECKING:
    from dragoman.sdk.context import JobContext

log = structlog.get_logger("dragoman.worker")

#: Maximum items of a generator that becomes a list.
MAX_ITEMS: Final = 10_000
#: Frames of the user's code in a fault.
_MAX_FRAMES: Final = 8
#: Code that is not the user's: this package, the standard library, installed packages.
_NOT_THE_USERS: Final = (
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    "<frozen",
)
_END: Final = object()


class TaskFailed(Exception):
    """Raise inside a task to fail with a message for the caller and no traceback."""


class Permanent(TaskFailed):
    """Raise inside a task to fail at once: the broker does not retry it."""


class TryAgain(TaskFailed):
    """Raise inside a task to run again after so many seconds, if the job has retries left."""

    def __init__(self, after: float, reason: str = "") -> None:
        super().__init__(try_again_text(after, reason))


class NotInDialect(TaskFailed):
    """The worker's dialect has no message for this. The text says what to do instead."""


class ForwardRequested(Exception):
    """Raised by `job.forward`: the job continues at another service."""

    def __init__(self, service: str, call: Call) -> None:
        super().__init__(service)
        self.service = service
        self.call = call


# --- results ----------------------------------------------------------------------------------


def answer_of(result: object, context: Any) -> Answer:
    """Return a task's result as an answer; run coroutines and generators. Raises as these do."""
    if inspect.iscoroutine(result):
        result = context.wait_for(result)
    if inspect.isasyncgen(result):
        result = iter(context.wait_for(_collect(result)))
    if isinstance(result, Iterator):
        result = _drain(result, context)
    return Answer(raw=result) if isinstance(result, bytes) else Answer(_plain(result))


async def async_answer_of(result: object, context: Any) -> Answer:
    """Do what `answer_of` does, on the running event loop."""
    if inspect.isasyncgen(result):
        result = await _drain_async(result, context)
    elif inspect.isawaitable(result):
        result = await result
    return answer_of(result, context)


async def _drain_async(items: AsyncIterator[object], context: "JobContext") -> list[object] | None:
    """Stream the items as they come if they are bytes; else return a list."""
    found: list[object] = []
    is_stream: bool | None = None
    async for item in items:
        if is_stream is None:
            is_stream = isinstance(item, bytes) and await _is_streamed(item, context)
            if is_stream:
                continue
        if is_stream:
            await asyncio.to_thread(_stream, [item], context)
        else:
            _add(found, item)
    return None if is_stream else found


async def _is_streamed(first: bytes, context: "JobContext") -> bool:
    """Stream the first item; False if the dialect has no streams."""
    try:
        await asyncio.to_thread(context.stream, first)
    except NotInDialect:
        return False
    return True


async def _collect(items: AsyncIterator[object]) -> list[object]:
    found: list[object] = []
    async for item in items:
        _add(found, item)
    return found


def _add(found: list[object], item: object) -> None:
    if len(found) >= MAX_ITEMS:
        raise TaskFailed(f"the task yields more than {MAX_ITEMS:,} items; yield bytes to stream")
    found.append(item)


def _drain(items: Iterator[object], context: "JobContext") -> list[object] | None:
    """Stream the items if they are bytes and the dialect has streams; else return a list."""
    found: list[object] = []
    first = next(items, _END)
    if first is _END:
        return found
    if isinstance(first, bytes):
        try:
            context.stream(first)
        except NotInDialect:
            pass
        else:
            _stream(items, context)
            return None
    found.append(first)
    for item in items:
        _add(found, item)
    return found


def _stream(items: Iterable[object], context: "JobContext") -> None:
    for item in items:
        if not isinstance(item, bytes):
            raise TaskFailed(f"the task streams bytes and then yields {type(item).__name__}")
        context.stream(item)


def _plain(result: object) -> object:
    """Convert a result to JSON values and bytes: dataclasses to objects, dates to text."""
    if result is None or type(result) in (bool, int, float, str):
        return result
    try:
        return msgspec.to_builtins(result, builtin_types=(bytes, bytearray, memoryview))
    except RecursionError:
        raise TaskFailed("the result is nested too deeply, or contains itself") from None
    except Exception as error:
        raise TaskFailed(f"the result, {type(result).__name__}, cannot be sent: {error}") from None


# --- exceptions -------------------------------------------------------------------------------


def over_time_limit(limit: float) -> str:
    """Return the message of a task that was stopped by its time limit."""
    return f"the task was stopped: it ran longer than its time limit of {limit:g} s"


def failed(message: str) -> Answer:
    """Return the answer of a failed task."""
    return Answer(fault=Fault(FaultCode.TASK_FAILED, message))


def failed_by(error: BaseException, task: str, job: str, is_permanent: bool = False) -> Answer:
    """Return the answer for what a task raised; log the traceback of what it did not expect.

    The broker knows by the first word of a message that no retry can help.
    """
    first = f"{PERMANENT}: " if is_permanent or isinstance(error, Permanent) else ""
    if isinstance(error, TaskFailed):
        return failed(f"{first}{error}")
    text = "".join(traceback.format_exception(error))
    log.warning("task raised an exception", task=task, job=job, traceback=text)
    return failed(first + "\n".join([describe(error), *_users_frames(error)]))


def describe(error: BaseException) -> str:
    """Return type and message of an exception in one line."""
    if isinstance(error, SystemExit):
        return f"the task called sys.exit({'' if error.code is None else repr(error.code)})"
    message = str(error)
    if isinstance(error, JobFailed):
        # The other service's message may have lines of its own: those are in the log.
        message = message.partition("\n")[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _users_frames(error: BaseException) -> list[str]:
    """Return the lines of the user's code, outermost first, without paths of this machine."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)]
    return [
        f"  in {frame.name}, {Path(frame.filename).name} line {frame.lineno}"
        for frame in own[-_MAX_FRAMES:]
    ]
