"""The interface of a built-in service: a function of a call and its session.

The server runs built-in services and dispatches jobs to them as to any worker. A service gets a
`Call` and a `ServiceSession`, and returns a value or raises `ServiceFault`. It knows no link and
no loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from dragoman.model.content import Call
from dragoman.model.value import value

#: Unread inputs of one job; further ones are dropped, because nothing paces the client.
MOST_INPUT: Final = 1000


class ServiceFault(Exception):
    """The caller made a mistake; the message is for the caller."""


class ServiceSession:
    """One running call of a built-in service."""

    def __init__(self, job: str, client: str, send: Callable[[str, Any], None]) -> None:
        self.job = job
        #: The peer id of the caller.
        self.client = client
        self._send = send
        self._inbox: asyncio.Queue[Any] = asyncio.Queue(MOST_INPUT)
        self._stopped = asyncio.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether the job was cancelled."""
        return self._stopped.is_set()

    async def stream(self, data: bytes) -> None:
        """Send a piece of a stream, and let the loop forward it before the next read."""
        self._send("chunk", data)
        await asyncio.sleep(0)

    def progress(self, event: object) -> None:
        """Send a progress event to the client."""
        self._send("progress", event)

    async def input(self, at_most: float) -> object:
        """Wait for input from the client. Raises TimeoutError."""
        async with asyncio.timeout(at_most):
            return await self._inbox.get()

    # --- called by the service runner ---------------------------------------------------------

    def add_input(self, item: object) -> None:
        """Queue a client's input; drop it if the queue is full."""
        if not self._inbox.full():
            self._inbox.put_nowait(item)

    def stop(self) -> None:
        """Ask the service to stop."""
        self._stopped.set()


#: Runs one call: returns at once in the loop's thread, or returns a coroutine if it is slow.
Handler = Callable[[Call, ServiceSession], object | Awaitable[object]]
#: A task of a service; it gets the arguments of the call.
TaskFunction = Callable[..., object | Awaitable[object]]


@value
class BuiltinService:
    """A built-in service: its worker name, the service names it offers, and its handler."""

    name: str
    services: tuple[str, ...]
    handler: Handler
    #: Jobs it runs at a time.
    credit: int = 100


class TaskTable:
    """The tasks of a service by name.

    A task whose first parameter is named `session` gets the session of the call.
    """

    def __init__(self, label: str, tasks: Mapping[str, TaskFunction]) -> None:
        self._label = label
        self._tasks = dict(tasks)

    def add(self, tasks: Mapping[str, TaskFunction]) -> None:
        """Add tasks."""
        self._tasks.update(tasks)

    def __call__(self, call: Call, session: ServiceSession) -> Any | Awaitable[object]:
        """Run the task of a call. ZSS writes names in capitals, so lower case is tried, too."""
        task = self._tasks.get(call.task) or self._tasks.get(call.task.lower())
        if task is None:
            offered = ", ".join(sorted(self._tasks))
            raise ServiceFault(f"unknown {self._label} task {call.task!r}; known are {offered}")
        first = (session,) if wants_session(task) else ()
        try:
            return task(*first, *call.args, **call.kwargs)
        except TypeError as error:
            raise ServiceFault(f"{call.task}: {error}") from None


def wants_session(task: TaskFunction) -> bool:
    """Tell whether a task takes the session as its first parameter."""
    code = getattr(getattr(task, "__func__", task), "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ()
    return "session" in names[:2]
