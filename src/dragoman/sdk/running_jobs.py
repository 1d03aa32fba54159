"""The jobs that a worker runs: each is taken once, and let go of once.

What lives here: which jobs run, what their tasks say meanwhile, and how each ends: answered,
passed on, or handed back. What must not: what a call does (`tasks`, `manage`), and whether there is
to be more of them (the worker).

All of it belongs to the worker's loop but what `take` returns, which a thread runs.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import structlog

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import Assigned, InputGiven, Stop, Unsupported, WorkerSide
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.sdk.client import new_id
from dragoman.sdk.context import JobContext
from dragoman.sdk.tasks import ForwardRequested

log = structlog.get_logger("dragoman.worker")


class RunningJobs:
    """The jobs of one worker. `run` is called in threads, `ended` in the loop after each job."""

    def __init__(
        self,
        name: str,
        side: WorkerSide,
        *,
        send: Callable[[Iterable[Frames]], None],
        run: Callable[[Assigned, JobContext], Answer],
        in_loop: Callable[[Callable[[], None]], None],
        ended: Callable[[], None],
    ) -> None:
        self._name = name
        self._side = side
        self._send = send
        self._run = run
        self._in_loop = in_loop
        self._ended = ended
        #: By ticket; a job that is not here has ended, whatever its thread still does.
        self._jobs: dict[str, JobContext] = {}
        #: Jobs finished since the start, by whether they succeeded.
        self.succeeded = 0
        self.failed = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def clients(self) -> list[str]:
        """Return whose jobs run, in any thread; questions to the worker itself are none."""
        return [job.client for job in list(self._jobs.values()) if not job.is_management]

    def take(self, work: Assigned) -> Callable[[], None]:
        """Take a job; return what a thread is to run."""
        context = JobContext(work, self._say, new_id)
        self._jobs[work.ticket] = context
        self._send(self._side.take(work.ticket))
        return partial(self._execute, work, context)

    def _execute(self, work: Assigned, context: JobContext) -> None:
        try:
            answer = self._run(work, context)
            if context.is_cancelled:
                answer = Answer(fault=Fault(FaultCode.CANCELLED, "stopped as asked"))
            done = partial(self._finish, work.ticket, answer)
        except ForwardRequested as handover:
            done = partial(self._forward, work.ticket, handover)
        self._in_loop(done)

    # --- while it runs ------------------------------------------------------------------------

    def stop(self, stop: Stop) -> None:
        """Let a job's task know that it should stop."""
        context = self._jobs.get(stop.ticket)
        if context is not None:
            context.stop()

    def give(self, given: InputGiven) -> None:
        """Give a job's task what its client said."""
        context = self._jobs.get(given.ticket)
        if context is not None:
            context.give(given.request, given.answer)

    def _say(self, verb: str, *args: Any) -> None:
        """Let a task's thread say something through the side."""

        def speak() -> None:
            if args[0] not in self._jobs:
                # The job is over or was handed back; its task does not know yet.
                return
            try:
                self._send(getattr(self._side, verb)(*args))
            except Unsupported as error:
                log.warning("not said", worker=self._name, verb=verb, reason=str(error))

        self._in_loop(speak)

    # --- how it ends --------------------------------------------------------------------------

    def _finish(self, ticket: str, answer: Answer) -> None:
        context = self._jobs.pop(ticket, None)
        if context is None:
            return
        if not context.is_management:
            self._count(answer)
        self._send(self._side.finish(ticket, answer))
        self._ended()

    def _count(self, answer: Answer) -> None:
        if answer.fault is None:
            self.succeeded += 1
        else:
            self.failed += 1

    def _forward(self, ticket: str, handover: ForwardRequested) -> None:
        if self._jobs.pop(ticket, None) is None:
            return
        try:
            frames = self._side.forward(ticket, handover.service, handover.call)
        except Unsupported as error:
            fault = Fault(FaultCode.TASK_FAILED, str(error))
            frames = self._side.finish(ticket, Answer(fault=fault))
        self._send(frames)
        self._ended()

    def hand_back_all(self) -> None:
        """Give every job back unrun; what their threads bring later is dropped."""
        for ticket in list(self._jobs):
            del self._jobs[ticket]
            self._send(self._side.hand_back(ticket))
