"""What a built-in service is: a function of a call, and what it may do while it runs.

Services are hosted by the server, which brings them work like any worker's. They know nothing of
links and loops: they get a `Call` and a `ServiceSession`, and return a value or raise
`ServiceFault`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from dragoman.model.content import Call
from dragoman.model.value import value

#: How much input a job may leave unread; a client that sends more is not paced by anybody.
MOST_INPUT: Final = 1000


class ServiceFault(Exception):
    """Raised by a service: the caller's fault, in words for the caller."""


class ServiceSession:
    """One running call of a built-in service."""

    def __init__(self, job: str, client: str, say: Callable[[str, Any], None]) -> None:
        self.job = job
        #: The peer id of whoever asked.
        self.client = client
        self._say = say
        self._inbox: asyncio.Queue[Any] = asyncio.Queue(MOST_INPUT)
        self._stopped = asyncio.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether somebody asked for the job to stop."""
        return self._stopped.is_set()

    async def stream(self, data: bytes) -> None:
        """Send a piece of a stream, and let the loop pass it on before the next one is read."""
        self._say("chunk", data)
        await asyncio.sleep(0)

    def progress(self, event: Any) -> None:
        """Report to the client."""
        self._say("progress", event)

    async def input(self, at_most: float) -> Any:
        """Wait for what the client says. Raises TimeoutError."""
        async with asyncio.timeout(at_most):
            return await self._inbox.get()

    # --- called by the host -------------------------------------------------------------------

    def give(self, said: Any) -> None:
        """Take a client's input in; what nobody reads is dropped at the bound."""
        if not self._inbox.full():
            self._inbox.put_nowait(said)

    def stop(self) -> None:
        """Let the service know that it should stop."""
        self._stopped.set()


#: Runs one call. Quick ones answer in the loop's thread; slow ones are coroutines.
Handler = Callable[[Call, ServiceSession], Any | Awaitable[Any]]
#: A task of a service: its arguments are the call's.
TaskFunction = Callable[..., Any | Awaitable[Any]]


@value
class BuiltinService:
    """A service as the server hosts it: who it is, what it is asked by, and how it answers."""

    name: str
    services: tuple[str, ...]
    handler: Handler
    #: Jobs it takes at a time.
    credit: int = 100


class TaskTable:
    """Tasks by name, and how a call finds its own.

    A task whose first parameter is called `session` is given the running call.
    """

    def __init__(self, what: str, tasks: Mapping[str, TaskFunction]) -> None:
        self._what = what
        self._tasks = tasks

    def __call__(self, call: Call, session: ServiceSession) -> Any | Awaitable[Any]:
        """Answer a call; names differ by more than case, for some dialects shout them."""
        task = self._tasks.get(call.task) or self._tasks.get(call.task.lower())
        if task is None:
            offered = ", ".join(sorted(self._tasks))
            raise ServiceFault(f"unknown {self._what} task {call.task!r}; there are {offered}")
        first = (session,) if wants_session(task) else ()
        try:
            return task(*first, *call.args, **call.kwargs)
        except TypeError as error:
            raise ServiceFault(f"{call.task}: {error}") from None


def wants_session(task: TaskFunction) -> bool:
    """Tell whether a task wants to know the call it runs for."""
    code = getattr(getattr(task, "__func__", task), "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code else ()
    return "session" in names[:2]
