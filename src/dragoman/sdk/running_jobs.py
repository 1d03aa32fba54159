"""The running jobs of a worker, each from `take` to its end: answered, forwarded or handed back.

`tasks` and `manage` decide what a call does; the worker decides whether it takes more jobs.
Everything here runs in the worker's loop, except `execute`, which a thread of the pool runs, and
`execute_async`, which the event loop of the async tasks runs. A process pool calls `say`, `finish`
and `forward` itself.
"""

import time
from asyncio import CancelledError, current_task, get_running_loop
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

import structlog

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import (
    Assigned,
    InputGiven,
    Stop,
    TakesOutput,
    Unsupported,
    WorkerSide,
)
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.sdk.child_jobs import Children
from dragoman.sdk.client import new_id
from dragoman.sdk.context import JobContext
from dragoman.sdk.log_lines import LogLines
from dragoman.sdk.task_output import captured, install
from dragoman.sdk.task_results import ForwardRequested, NotInDialect, TaskFailed

log = structlog.get_logger("dragoman.worker")

#: Seconds that a task's message may wait for the worker's loop.
_LOOP_WAIT: Final = 60.0
#: Seconds after which a job that still waits for a thread goes back to the broker.
GIVE_BACK_AFTER: Final = 1.0
#: Seconds between two looks at the jobs: who waits too long, whose start is not confirmed yet.
_LOOK_EVERY: Final = 0.05
_CANCELLED: Final = Answer(fault=Fault(FaultCode.CANCELLED, "the worker stopped the job"))


class RunningJobs:
    """The running jobs of one worker.

    Threads call `run`; the loop calls `ended` after each job.
    """

    def __init__(
        self,
        name: str,
        side: WorkerSide,
        *,
        send: Callable[[Iterable[Frames]], None],
        run: Callable[[Assigned, JobContext], Answer],
        in_loop: Callable[[Callable[[], None]], None],
        later: Callable[[float, Callable[[], None]], object],
        ended: Callable[[], None],
        children: Callable[[JobContext], Children | None],
        store: Callable[[str, Answer], bool],
        log_lines: bool = False,
    ) -> None:
        self._name = name
        self._side = side
        self._send = send
        self._run = run
        self._in_loop = in_loop
        self._later = later
        self._ended = ended
        self._children = children
        self._store = store
        self._is_watching = False
        #: By ticket. A job that is not here has ended, even if its thread still runs.
        self._jobs: dict[str, JobContext] = {}
        has_streams = isinstance(side, TakesOutput)
        #: In a dialect without log streams, log lines are progress reports.
        self._lines = LogLines(name, self._report, later) if log_lines and not has_streams else None
        #: Whether the jobs get what their tasks print.
        self.takes_output = has_streams or self._lines is not None
        if self.takes_output:
            install()
        #: Jobs finished since the start, by whether they succeeded.
        self.succeeded = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def clients(self) -> list[str]:
        """Return the client of each running job, without management calls. Thread-safe."""
        return [job.client for job in list(self._jobs.values()) if not job.is_management]

    def longest(self, now: float) -> float:
        """Return how many seconds the oldest running job has run. Thread-safe."""
        return max((now - job.started_at for job in list(self._jobs.values())), default=0.0)

    def take(self, work: Assigned) -> JobContext:
        """Take a job; return its context. The caller has it run: here, or elsewhere."""
        context = JobContext(work, self._send_from_thread, new_id)
        context.children = self._children(context)
        self._jobs[work.ticket] = context
        if not self._confirms_late():
            self._confirm(work.ticket, context)
        if not self._is_watching:
            self._is_watching = True
            self._later(_LOOK_EVERY, self._look)
        return context

    def _confirms_late(self) -> bool:
        """Whether a short job's result is confirmation enough for this broker."""
        return getattr(self._side, "result_confirms", False)

    def _confirm(self, ticket: str, context: JobContext) -> None:
        context.is_confirmed = True
        self._send(self._side.take(ticket))

    def _look(self) -> None:
        """Confirm jobs that have run for a while; give back those that have waited too long."""
        self._is_watching = bool(self._jobs)
        if not self._jobs:
            return
        self._later(_LOOK_EVERY, self._look)
        now = time.monotonic()
        for ticket, context in list(self._jobs.items()):
            if context.has_started:
                if not context.is_confirmed:
                    self._confirm(ticket, context)
            elif now - context.started_at >= GIVE_BACK_AFTER and self._gives_back():
                self._give_back(ticket, context)

    def _gives_back(self) -> bool:
        """Whether the broker gives a job that comes back to another worker."""
        return getattr(self._side, "can_give_back", False)

    def _give_back(self, ticket: str, context: JobContext) -> None:
        if context.withdraw():
            self._drop(ticket)
            self._send(self._side.hand_back(ticket))

    def execute(self, work: Assigned, context: JobContext) -> None:
        """Run a job in this thread, unless it was withdrawn."""
        if not context.start():
            return
        try:
            answer = self._answer(work, context)
            done = partial(self.finish, work.ticket, answer)
        except ForwardRequested as handover:
            done = partial(self.forward, work.ticket, handover)
        self._in_loop(done)

    def _answer(self, work: Assigned, context: JobContext) -> Answer:
        """Run the task, unless the job was cancelled while it waited for a thread."""
        if context.is_cancelled:
            return _CANCELLED
        with self._captured(work.ticket):
            return self._run(work, context)

    async def execute_async(
        self, work: Assigned, context: JobContext, run: Callable[[], Awaitable[Answer]]
    ) -> None:
        """Run a job on this event loop, unless it was withdrawn. A cancel cancels its coroutine."""
        if not context.start():
            return
        loop, me = get_running_loop(), current_task()
        assert me is not None
        context.is_on_event_loop = True
        context.attach(on_stop=lambda: loop.call_soon_threadsafe(me.cancel))
        try:
            with self._captured(work.ticket):
                answer = await run()
            done = partial(self.finish, work.ticket, answer)
        except ForwardRequested as handover:
            done = partial(self.forward, work.ticket, handover)
        except CancelledError:
            done = partial(self.finish, work.ticket, _CANCELLED)
        self._in_loop(done)

    def _captured(self, ticket: str) -> AbstractContextManager[None]:
        """Pass what is printed inside the block to a job."""
        send = partial(self._send_from_thread, "output", ticket)
        return captured(send) if self.takes_output else nullcontext()

    # --- while it runs ------------------------------------------------------------------------

    def stop(self, stop: Stop) -> None:
        """Mark a job as cancelled. One that has not begun ends at once."""
        context = self._jobs.get(stop.ticket)
        if context is not None:
            context.stop()
            if context.withdraw():
                fault = Fault(FaultCode.CANCELLED, "the job had not begun")
                self.finish(stop.ticket, Answer(fault=fault))

    def give(self, given: InputGiven) -> None:
        """Give the client's input to a job's task."""
        context = self._jobs.get(given.ticket)
        if context is not None:
            context.give(given.request, given.answer)

    def _send_from_thread(self, verb: str, ticket: str, *args: object) -> None:
        """Have the loop send a message about a job; `verb` is the side's method that encodes it.

        Waits for the loop, so that a task hears at once what its dialect cannot say.
        """
        sent: Future[None] = Future()
        self._in_loop(partial(self._send_about, sent, verb, ticket, args))
        try:
            sent.result(_LOOP_WAIT)
        except Unsupported as error:
            raise NotInDialect(str(error)) from None
        except Unmappable as error:
            raise TaskFailed(f"the {verb} message cannot be sent: {error}") from None

    def _send_about(
        self, sent: "Future[None]", verb: str, ticket: str, args: tuple[object, ...]
    ) -> None:
        try:
            self.say(verb, ticket, args)
            sent.set_result(None)
        except Exception as error:
            sent.set_exception(error)

    def say(self, verb: str, ticket: str, args: tuple[object, ...]) -> None:
        """Send a message about a job. Raises `Unsupported` and `Unmappable`."""
        # A job that has ended or was handed back sends nothing; its task does not know yet.
        if ticket not in self._jobs:
            return
        if verb == "output" and self._lines is not None:
            self._lines.add(ticket, str(args[0]))
        else:
            self._send(getattr(self._side, verb)(ticket, *args))

    def _report(self, ticket: str, event: object) -> None:
        self.say("progress", ticket, (event,))

    # --- how it ends --------------------------------------------------------------------------

    def finish(self, ticket: str, answer: Answer) -> None:
        """Answer a job, after a large result is stored."""
        if ticket in self._jobs and not self._store(ticket, answer):
            self.end(ticket, answer)

    def _drop(self, ticket: str) -> JobContext | None:
        """Forget a job, after the last of its log lines is sent."""
        if self._lines is not None:
            self._lines.end(ticket)
        return self._jobs.pop(ticket, None)

    def end(self, ticket: str, answer: Answer) -> None:
        """Answer a job. What a cancelled task returns is not its answer."""
        context = self._drop(ticket)
        if context is None:
            return
        if context.is_cancelled and context.has_started:
            answer = _CANCELLED
        if not context.is_management:
            self._count(answer)
        self._send(self._last_message(ticket, answer))
        self._ended()

    def _last_message(self, ticket: str, answer: Answer) -> list[Frames]:
        """Encode an answer. One that the dialect cannot carry becomes a fault: every job ends."""
        try:
            return self._side.finish(ticket, answer)
        except Exception as error:
            log.warning("result not encoded", worker=self._name, ticket=ticket, reason=str(error))
            message = f"the result cannot be sent: {error}"
            return self._side.finish(ticket, Answer(fault=Fault(FaultCode.UNMAPPABLE, message)))

    def _count(self, answer: Answer) -> None:
        if answer.fault is None:
            self.succeeded += 1
        else:
            self.failed += 1

    def forward(self, ticket: str, handover: ForwardRequested) -> None:
        """Pass a job on to another service."""
        if self._drop(ticket) is None:
            return
        try:
            frames = self._side.forward(ticket, handover.service, handover.call)
        except Unsupported as error:
            fault = Fault(FaultCode.TASK_FAILED, str(error))
            frames = self._side.finish(ticket, Answer(fault=fault))
        self._send(frames)
        self._ended()

    def hand_back_waiting(self) -> None:
        """Hand back the jobs that wait for a thread."""
        for ticket, context in list(self._jobs.items()):
            self._give_back(ticket, context)

    def hand_back_all(self) -> None:
        """Return every job to the broker unfinished; stop it, or drop what it returns later."""
        for ticket, context in list(self._jobs.items()):
            self._drop(ticket)
            context.stop()
            self._send(self._side.hand_back(ticket))
