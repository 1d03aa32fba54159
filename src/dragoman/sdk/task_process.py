"""A task process: runs one job at a time for a worker, in a process of its own.

The main thread runs the tasks, so signals reach them. A second thread reads the pipe: replies,
input of the client, and the order to stop. When the worker is gone, the process kills itself and
what its tasks started.
"""

import asyncio
import itertools
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, MutableMapping
from contextlib import nullcontext, suppress
from typing import Any, Final

import structlog

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.value import value
from dragoman.sdk import isolation
from dragoman.sdk.client import new_id
from dragoman.sdk.context import JobContext
from dragoman.sdk.lifespan import Lifespan
from dragoman.sdk.memory_limit import limited_memory
from dragoman.sdk.process_pipe import BlockingPipe
from dragoman.sdk.task_output import captured, install
from dragoman.sdk.task_reference import TaskReference
from dragoman.sdk.task_results import ForwardRequested, NotInDialect, TaskFailed, failed
from dragoman.sdk.tasks import Task, fault_of, perform

#: Seconds that a task's message may wait for the worker.
_WORKER_WAIT: Final = 60.0


class TaskStopped(BaseException):
    """Raised inside a task by the order to stop. `except Exception` does not catch it."""


@value
class TaskOrder:
    """A job for a task process."""

    work: Assigned
    task: TaskReference
    memory: int | None = None
    takes_output: bool = False


class TaskProcess:
    """One process: orders in, messages and answers out."""

    def __init__(self, pipe: BlockingPipe) -> None:
        self._pipe = pipe
        self._pid = os.getpid()
        self._main = threading.main_thread().ident
        self._orders: queue.SimpleQueue[TaskOrder | None] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._replies: dict[int, queue.SimpleQueue[tuple[str, str]]] = {}
        self._tasks: dict[TaskReference, Task] = {}
        #: Entered lifespans by their pickled form; a worker has one.
        self._lifespans: dict[bytes, Lifespan] = {}
        #: One event loop for the async tasks and lifespans of this process.
        self._runner = asyncio.Runner()
        self._context: JobContext | None = None
        self._handlers: dict[str, Callable[..., None]] = {
            "run": self._take,
            "reply": self._reply,
            "give": self._give,
            "stop": self._stop,
            "end": lambda: self._orders.put(None),
        }

    def run(self) -> None:
        """Run jobs until the worker says `end`, or stops one: its state may be half-changed."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        with suppress(TaskStopped):
            # Inside the block: the first job and the order to stop it may wait in the pipe.
            threading.Thread(target=self._read, name="dragoman pipe", daemon=True).start()
            while (order := self._orders.get()) is not None:
                self._run_job(order)

    # --- the reading thread -------------------------------------------------------------------

    def _read(self) -> None:
        try:
            while True:
                for verb, *args in self._pipe.receive():
                    self._handlers[verb](*args)
        except EOFError:
            os.killpg(0, signal.SIGKILL)

    def _take(self, order: TaskOrder) -> None:
        # Here, not in the main thread: the order to stop may be the next message.
        self._context = JobContext(order.work, self._say, new_id)
        self._orders.put(order)

    def _reply(self, number: int, kind: str, text: str) -> None:
        if (waiting := self._replies.get(number)) is not None:
            waiting.put((kind, text))

    def _give(self, ticket: str, request: str, answer: object) -> None:
        context = self._context
        if context is not None and context.ticket == ticket:
            context.give(request, answer)

    def _stop(self, ticket: str) -> None:
        context = self._context
        if context is not None and context.ticket == ticket and self._main is not None:
            context.stop()
            signal.pthread_kill(self._main, signal.SIGTERM)

    def _on_sigterm(self, number: int, frame: object) -> None:
        """Stop the task, if the worker asked for it. systemd sends SIGTERM to every process."""
        if self._context is not None and self._context.is_cancelled:
            raise TaskStopped

    # --- the main thread ----------------------------------------------------------------------

    def _run_job(self, order: TaskOrder) -> None:
        assert self._context is not None
        try:
            answer = self._answer(order, self._context)
            last: tuple[object, ...] = ("done", answer)
        except ForwardRequested as handover:
            last = ("forward", handover.service, handover.call)
        self._context = None
        if os.getpid() != self._pid:
            # The task forked and returned twice: only the first process answers.
            os._exit(0)
        _flush()
        self._send_last(last)

    def _answer(self, order: TaskOrder, context: JobContext) -> Answer:
        task: Task | None = None
        try:
            lifespan = self._lifespan(order.task)
            context.dependencies, context.run_coroutine = lifespan.values, self._runner.run
            context.middleware = lifespan.middleware
            task = self._task(order.task, lifespan)
            output = captured(self._output(order.work.ticket)) if order.takes_output else None
            with output or nullcontext(), limited_memory(order.memory):
                return perform(task, order.work.call, context)
        except (ForwardRequested, TaskStopped):
            raise
        except MemoryError as error:
            if order.memory is None:
                return fault_of(error, task, context)
            return failed(f"the task needs more than its memory limit, {order.memory} bytes")
        except BaseException as error:
            return fault_of(error, task, context)

    def _task(self, reference: TaskReference, lifespan: Lifespan) -> Task:
        if reference not in self._tasks:
            self._tasks[reference] = reference.load(lifespan.types)
        return self._tasks[reference]

    def _lifespan(self, reference: TaskReference) -> Lifespan:
        """Return the entered lifespan; enter it before the first job of this process."""
        found = self._lifespans.get(reference.surroundings)
        if found is None:
            found = reference.load_lifespan()
            self._runner.run(found.enter())
            self._lifespans[reference.surroundings] = found
        return found

    def leave(self) -> None:
        """Leave the lifespans, before the process ends."""
        for lifespan in self._lifespans.values():
            self._runner.run(lifespan.leave())

    def _send_last(self, last: tuple[object, ...]) -> None:
        """Send the answer; one that cannot be sent becomes a fault: every job ends."""
        try:
            self._pipe.send(last)
        except OSError:
            raise
        except Exception as error:
            fault = Fault(FaultCode.TOO_LARGE, f"the result cannot leave its process: {error}")
            self._pipe.send(("done", Answer(fault=fault)))

    # --- what a task says ---------------------------------------------------------------------

    def _say(self, verb: str, ticket: str, *args: object) -> None:
        """Have the worker send a message about the job; wait, as a thread of the worker does."""
        if os.getpid() != self._pid:
            raise TaskFailed("a process that the task forked cannot use the job's context")
        number = next(self._numbers)
        replies = self._replies[number] = queue.SimpleQueue()
        try:
            self._send_message(verb, ("say", number, verb, args))
            kind, text = replies.get(timeout=_WORKER_WAIT)
        except queue.Empty:
            raise TaskFailed(f"the worker did not send the {verb} message") from None
        finally:
            del self._replies[number]
        if kind:
            raise (NotInDialect if kind == "unsupported" else TaskFailed)(text)

    def _send_message(self, verb: str, message: tuple[object, ...]) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise
        except Exception as error:
            raise TaskFailed(f"the {verb} message cannot leave its process: {error}") from None

    def _output(self, ticket: str) -> Callable[[str, bool], None]:
        def send(text: str, is_error: bool) -> None:
            if os.getpid() == self._pid:
                self._say("output", ticket, text, is_error)

        return send

    def log(
        self, logger: object, method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, Any]:
        """Have the worker write a log entry; a processor of structlog."""
        fields = {name: str(field) for name, field in event.items() if name != "event"}
        with suppress(OSError):
            self._pipe.send(("log", method, str(event.get("event", "")), fields))
        raise structlog.DropEvent


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def run_task_process(end: socket.socket) -> None:
    """Run a task process in this process, then end it. `end` is its end of the pipe."""
    # A session of its own: Ctrl-C does not reach it, and one signal ends what tasks started.
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    isolation.note_task_process()
    process = TaskProcess(BlockingPipe(end))
    structlog.configure(processors=[process.log])
    install()
    process.run()
    with suppress(Exception):
        process.leave()
    _flush()
    os._exit(0)
