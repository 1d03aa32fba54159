"""Where a task runs: in a thread, on the worker's event loop for tasks, or in a child process.

A thread costs least and cannot be stopped. A coroutine can be cancelled while it waits. A process
can be stopped at any time, and its death ends one job, not the worker.
"""

import inspect
import re
import sys
from collections.abc import Callable
from typing import Final, Literal, get_args

from dragoman.model.value import value

Isolation = Literal["thread", "process", "async"]

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)i?B?\s*", re.IGNORECASE)

_is_task_process = False


@value
class TaskLimits:
    """What one job of a task may use; None: no limit."""

    #: Seconds that it may run.
    time: float | None = None
    #: Bytes of memory that it may add to its process.
    memory: int | None = None


NO_LIMITS: Final = TaskLimits()


def parse_size(size: int | str | None) -> int | None:
    """Return a size in bytes, from a number or a text such as `512MB` (1 MB is 1,048,576 bytes)."""
    if size is None or isinstance(size, int):
        return size
    found = _SIZE.fullmatch(size)
    if found is None:
        raise ValueError(f"{size!r} is no size; write for example '512MB'")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def isolation_of(function: Callable[..., object], wanted: Isolation | None, name: str) -> Isolation:
    """Return where a task runs. Raises ValueError if the function cannot run there.

    Without a wish, coroutine functions run on the event loop and others in threads.
    """
    if wanted is None:
        return "async" if is_async(function) else "thread"
    if wanted not in get_args(Isolation):
        raise ValueError(f"task {name}: isolation is thread, process or async, not {wanted!r}")
    if wanted == "async" and not is_async(function):
        raise ValueError(f"task {name}: isolation='async' needs an `async def` function")
    if wanted == "process" and "<" in getattr(function, "__qualname__", ""):
        raise ValueError(
            f"task {name}: isolation='process' needs a function that a child process can import; "
            "move it to the top level of its module"
        )
    return wanted


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling the function makes a coroutine or an asynchronous generator."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def check_limits(limits: TaskLimits, isolation: Isolation, name: str) -> None:
    """Raise ValueError for a limit that this isolation cannot enforce."""
    if limits.time is not None and isolation == "thread":
        raise ValueError(
            f"task {name}: a thread cannot be stopped; time_limit needs isolation='process'"
        )
    if limits.memory is not None and isolation != "process":
        raise ValueError(f"task {name}: memory_limit needs isolation='process'")
    if limits.memory is not None and not sys.platform.startswith("linux"):
        raise ValueError(f"task {name}: memory_limit needs Linux")


# --- inside a task process ----------------------------------------------------------------------


def note_task_process() -> None:
    """Note that this process runs the tasks of a worker."""
    global _is_task_process
    _is_task_process = True


def refuse_to_serve_in_a_task_process() -> None:
    """Raise RuntimeError in a task process: it imports the worker's module to find its tasks."""
    if _is_task_process:
        raise RuntimeError(
            "a task process imports this module and would start the worker again; "
            "put the start of the worker under `if __name__ == '__main__':`"
        )
