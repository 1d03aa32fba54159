"""The context of a running job: progress, streams, input, forwards, cancels, child jobs."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Call
from dragoman.sdk.child_jobs import CallsChildren
from dragoman.sdk.middleware import Middleware
from dragoman.sdk.task_results import ForwardRequested, TaskFailed

T = TypeVar("T")


class JobContext(CallsChildren):
    """Passed to a task that has a parameter `job`. Safe to use in any thread."""

    def __init__(
        self, work: Assigned, send: Callable[..., None], new_id: Callable[[], str]
    ) -> None:
        self._work = work
        #: When the job began, or before that arrived, on the monotonic clock.
        self.started_at = time.monotonic()
        self._send = send
        self._new_id = new_id
        self._stopped = threading.Event()
        self._start_lock = threading.Lock()
        self.has_started = self._is_withdrawn = False
        #: Whether the broker was told that the job runs. Set by the worker.
        self.is_confirmed = False
        #: What a task gets by the type of a parameter. Set by the worker.
        self.dependencies: Mapping[type, object] = {}
        #: Code around the task. Set by the worker.
        self.middleware: tuple[Middleware, ...] = ()
        #: Runs coroutines of this task, if it has an event loop of its own. Set by the worker.
        self.run_coroutine: Callable[[Coroutine[object, None, Any]], Any] = asyncio.run
        #: Whether its task shares an event loop, which must not wait. Set by the worker.
        self.is_on_event_loop = False
        #: Whether this is a management call to the worker. Set by the worker.
        self.is_management = False
        self._answers: dict[str, Callable[[object], object]] = {}
        #: Stops the task and gives it input, if it runs in a process or on an event loop.
        self._on_stop: Callable[[], object] | None = None
        self._on_input: Callable[[str, object], None] | None = None
        #: Input that answers no question, such as a file reader's offsets.
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @property
    def ticket(self) -> str:
        """What the worker and its dialect call the job."""
        return self._work.ticket

    @property
    def id(self) -> str:
        """The job's id."""
        return self._work.job

    @property
    def service(self) -> str:
        """The service that the client called."""
        return self._work.service

    @property
    def client(self) -> str:
        """The name of the client; empty if the dialect does not pass it on."""
        return self._work.client

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that this worker serves in this job; empty if none were named."""
        return self._work.resources

    @property
    def headers(self) -> Mapping[str, str]:
        """The call's headers."""
        return self._work.call.headers

    @property
    def timeout(self) -> float | None:
        """How many seconds the job may run; None if the broker set no limit."""
        return self._work.timeout

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled. A long task checks this regularly."""
        return self._stopped.is_set()

    def progress(self, event: object) -> None:
        """Send a progress report, any JSON value, to the client. Raises `NotInDialect`."""
        self._send("progress", self._work.ticket, event)

    def stream(self, data: bytes) -> None:
        """Send a chunk of bytes to the client, in order. Raises `NotInDialect`."""
        self._send("chunk", self._work.ticket, data)

    def ask(self, question: object, timeout: float = 600.0) -> Any:
        """Send the client a question and wait for the answer. Raises `NotInDialect`.

        A task on the worker's event loop writes `await job.ask_async(...)`.
        """
        if self.is_on_event_loop:
            raise TaskFailed("job.ask stops every async task; write `await job.ask_async(...)`")
        request = self._new_id()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers[request] = answers.put
        try:
            self._send("ask_input", self._work.ticket, request, question)
            return answers.get(timeout=timeout)
        except queue.Empty:
            raise TaskFailed(f"the client did not answer within {timeout:g} s") from None
        finally:
            del self._answers[request]

    async def ask_async(self, question: object, timeout: float = 600.0) -> Any:  # noqa: ASYNC109
        """Do what `ask` does; other async tasks run meanwhile."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def put(given: object) -> None:
            if not answer.done():
                answer.set_result(given)

        request = self._new_id()
        self._answers[request] = lambda given: loop.call_soon_threadsafe(put, given)
        try:
            self._send("ask_input", self._work.ticket, request, question)
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise TaskFailed(f"the client did not answer within {timeout:g} s") from None
        finally:
            del self._answers[request]

    def forward(self, service: str, task: str = "", *args: object, **kwargs: object) -> None:
        """Forward the job to another service, which answers the client. Does not return."""
        raise ForwardRequested(service, Call(task, args, kwargs))

    def wait_for(self, work: Coroutine[object, None, T]) -> T:
        """Run a coroutine to its end in this thread."""
        found: T = self.run_coroutine(work)
        return found

    # --- called by the worker -----------------------------------------------------------------

    def start(self) -> bool:
        """Note that a thread runs the job; False if it was withdrawn before."""
        with self._start_lock:
            self.has_started = not self._is_withdrawn
            self.started_at = time.monotonic()
            return self.has_started

    def withdraw(self) -> bool:
        """Keep a job that waits for a thread from running; False if it runs already."""
        with self._start_lock:
            self._is_withdrawn = not self.has_started
            return self._is_withdrawn

    def stop(self) -> None:
        """Mark the job as cancelled; stop its task, if it can be stopped."""
        self._stopped.set()
        if self._on_stop is not None:
            self._on_stop()

    def attach(
        self,
        on_stop: Callable[[], object],
        on_input: Callable[[str, object], None] | None = None,
    ) -> None:
        """Have a cancel call `on_stop`, and input go to `on_input`: the task runs elsewhere."""
        self._on_stop, self._on_input = on_stop, on_input
        if self.is_cancelled:
            on_stop()

    def give(self, request: str, answer: object) -> None:
        """Hand the client's answer to the task that asked; other input goes to `inbox`."""
        if self._on_input is not None:
            self._on_input(request, answer)
        else:
            put = self._answers.get(request) or self.inbox.put
            put(answer)
