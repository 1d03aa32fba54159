"""One task process as its worker sees it: its pipe, its job, how the job ends.

Everything here runs in the worker's loop.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog

from dragoman.dialects.peer_sides import Unsupported
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.sdk.context import JobContext
from dragoman.sdk.process_pipe import LoopPipe
from dragoman.sdk.task_process import TaskOrder
from dragoman.sdk.task_results import ForwardRequested, failed, over_time_limit

log = structlog.get_logger("dragoman.worker")

#: Seconds between the order to stop and SIGKILL. Brokers wait 5 s for the confirmation of a cancel.
STOP_GRACE: Final = 2.0


class JobEnds(Protocol):
    """What a process needs of the worker's running jobs."""

    def say(self, verb: str, ticket: str, args: tuple[object, ...]) -> None:
        """Send a message about a job."""
        ...

    def finish(self, ticket: str, answer: Answer) -> None:
        """Answer a job."""
        ...

    def forward(self, ticket: str, handover: ForwardRequested) -> None:
        """Pass a job on to another service."""
        ...


class PooledProcess:
    """A task process. `free` is called when its job has ended, with whether it can run another."""

    def __init__(self, running: JobEnds, free: Callable[["PooledProcess", bool], None]) -> None:
        self._running = running
        self._free = free
        self._pipe: LoopPipe | None = None
        self.pid: int | None = None
        self.jobs = 0
        self._order: TaskOrder | None = None
        #: Why its job was stopped; None while it was not.
        self._stopped: Answer | None = None
        self._is_ending = self._must_die = False
        self._timers: list[asyncio.TimerHandle] = []
        self._handlers: dict[str, Callable[..., None]] = {
            "say": self._say,
            "done": self._done,
            "forward": self._forward,
            "log": self._log,
        }

    def connect(self, sock: socket.socket) -> None:
        """Use this end of the pipe."""
        self._pipe = LoopPipe(sock, self._received, self.kill)

    def started(self, pid: int) -> None:
        """Note its process id."""
        self.pid = pid
        if self._must_die:
            self.kill()

    @property
    def is_busy(self) -> bool:
        """Whether it runs a job."""
        return self._order is not None

    # --- its job ------------------------------------------------------------------------------

    def run(self, order: TaskOrder, context: JobContext, time_limit: float | None) -> None:
        """Run a job. The caller has started its context."""
        self._order = order
        self.jobs += 1
        ticket = order.work.ticket
        try:
            self._send(("run", order))
        except Exception as error:
            answer = failed(f"the arguments cannot reach the task's process: {error}")
            self._end_job(lambda: self._running.finish(ticket, answer), True)
            return
        context.attach(
            on_stop=lambda: self._stop(ticket, Answer()),
            on_input=lambda request, answer: self._send(("give", ticket, request, answer)),
        )
        if time_limit is not None:
            over = failed(over_time_limit(time_limit))
            self._later(time_limit, lambda: self._stop(ticket, over))

    def _stop(self, ticket: str, answer: Answer) -> None:
        """Stop the job: ask the process, then kill it. The running jobs know a cancelled one."""
        order = self._order
        if order is None or order.work.ticket != ticket or self._stopped is not None:
            return
        self._stopped = answer
        self._send(("stop", ticket))
        self._later(STOP_GRACE, self.kill)

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, work))

    # --- messages of the process ----------------------------------------------------------------

    def _received(self, message: tuple[Any, ...]) -> None:
        verb, *args = message
        self._handlers[verb](*args)

    def _say(self, number: int, verb: str, args: tuple[object, ...]) -> None:
        kind, text = "", ""
        if self._order is not None:
            try:
                self._running.say(verb, self._order.work.ticket, args)
            except Unsupported as error:
                kind, text = "unsupported", str(error)
            except Unmappable as error:
                kind, text = "failed", f"the {verb} message cannot be sent: {error}"
            except Exception as error:
                kind, text = "failed", f"the {verb} message cannot be sent: {error!r}"
        self._send(("reply", number, kind, text))

    def _done(self, answer: Answer) -> None:
        if self._order is not None:
            ticket, last = self._order.work.ticket, self._stopped or answer
            self._end_job(lambda: self._running.finish(ticket, last), self._stopped is None)

    def _forward(self, service: str, call: Call) -> None:
        if self._order is not None:
            ticket, handover = self._order.work.ticket, ForwardRequested(service, call)
            self._end_job(lambda: self._running.forward(ticket, handover), self._stopped is None)

    def _log(self, method: str, event: str, fields: dict[str, str]) -> None:
        getattr(log, method, log.info)(event, **fields)

    def _send(self, message: tuple[object, ...]) -> None:
        assert self._pipe is not None
        self._pipe.send(message)

    # --- its end --------------------------------------------------------------------------------

    def exited(self, status: int) -> None:
        """Note that the process has ended; its job ends with it."""
        if self._pipe is not None:
            # An answer that it sent before its end counts.
            self._pipe.read_rest()
            self._pipe.close()
        self.pid = None
        if self._order is None:
            self._cancel_timers()
            return
        ticket = self._order.work.ticket
        answer = self._stopped or failed(describe_death(status))
        self._end_job(lambda: self._running.finish(ticket, answer), False)

    def _end_job(self, end: Callable[[], None], is_usable: bool) -> None:
        self._order = None
        self._cancel_timers()
        end()
        self._free(self, is_usable)

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def end(self) -> None:
        """Let an idle process end by itself; kill it if it does not."""
        if not self._is_ending:
            self._is_ending = True
            self._send(("end",))
            self._later(STOP_GRACE, self.kill)

    def kill(self) -> None:
        """Kill the process and what its tasks started."""
        self._must_die = True
        if self.pid is not None:
            _kill_group(self.pid)


def _kill_group(pid: int) -> None:
    # The process may not have its own group yet, right after its start.
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def describe_death(status: int) -> str:
    """Return what ended a process, from its wait status, in words for the caller."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"the task ended its process with exit status {code}"
    number = -code
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    hint = "; the machine may be out of memory" if number == signal.SIGKILL else ""
    text = signal.strsignal(number) or "unknown"
    return f"the task's process was killed by {name} ({text}{hint})"
