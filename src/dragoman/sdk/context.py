"""What a task can do about its job while it runs: report, stream, ask, pass on, notice a cancel."""

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Call
from dragoman.sdk.tasks import ForwardRequested, TaskFailed

T = TypeVar("T")


class JobContext:
    """Given to a task that has a parameter `job`; to be used in any thread."""

    def __init__(self, work: Assigned, say: Callable[..., None], new_id: Callable[[], str]) -> None:
        self._work = work
        self._say = say
        self._new_id = new_id
        self._stopped = threading.Event()
        #: Whether the worker itself is asked, and none of its tasks. Set by the worker.
        self.is_management = False
        self._answers: dict[str, queue.SimpleQueue[Any]] = {}
        #: Input that came without being asked for (a file reader's offsets, say).
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @property
    def id(self) -> str:
        """The job's id."""
        return self._work.job

    @property
    def service(self) -> str:
        """The service the job was asked from."""
        return self._work.service

    @property
    def client(self) -> str:
        """The client that asked for it, as far as the dialect tells."""
        return self._work.client

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that this worker is to serve, of a job that is for resources."""
        return self._work.resources

    @property
    def headers(self) -> Mapping[str, str]:
        """The call's headers."""
        return self._work.call.headers

    @property
    def timeout(self) -> float | None:
        """How long the job may run, in seconds, if the broker said."""
        return self._work.timeout

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked for the job to stop. A long task looks at this now and then."""
        return self._stopped.is_set()

    def progress(self, event: Any) -> None:
        """Report to the client: any JSON value."""
        self._say("progress", self._work.ticket, event)

    def stream(self, data: bytes) -> None:
        """Send a piece of a stream to the client; pieces arrive in order."""
        self._say("chunk", self._work.ticket, data)

    def ask(self, question: Any, timeout: float = 600.0) -> Any:
        """Ask the client something and wait for its answer."""
        request = self._new_id()
        box = self._answers[request] = queue.SimpleQueue()
        self._say("ask_input", self._work.ticket, request, question)
        try:
            return box.get(timeout=timeout)
        except queue.Empty:
            raise TaskFailed(f"the client did not answer within {timeout:g} s") from None
        finally:
            del self._answers[request]

    def forward(self, service: str, task: str = "", *args: Any, **kwargs: Any) -> None:
        """Pass the job on to another service: its answer goes to the client. Does not return."""
        raise ForwardRequested(service, Call(task, args, kwargs))

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a task that is a coroutine, to its end, in this thread."""
        return asyncio.run(work)

    # --- called by the worker -----------------------------------------------------------------

    def stop(self) -> None:
        """Let the task know that it should stop."""
        self._stopped.set()

    def give(self, request: str, answer: Any) -> None:
        """Take in the client's answer, or input that nobody asked for."""
        box = self._answers.get(request)
        (box or self.inbox).put(answer)
