"""The worker: run plain functions as a service, on any dialect.

SIGTERM (or `stop`) drains: no new work, what runs is finished, then good-bye. A second one hands
back what still runs. Tasks run in threads; the connection beats on its own (see `courier`).
"""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from dragoman.dialects.talk import (
    Alive,
    Dismissed,
    InputGiven,
    Reply,
    Stop,
    Unsupported,
    Word,
    Work,
    WorkerSide,
)
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.labels import ANNOUNCED
from dragoman.model.target import write_names
from dragoman.sdk.cache import LARGEST_CACHE
from dragoman.sdk.client import new_id
from dragoman.sdk.connection import Connection
from dragoman.sdk.context import JobContext
from dragoman.sdk.credentials import Given, find_credentials
from dragoman.sdk.fetched import Fetcher, NotFetched
from dragoman.sdk.fetched import files_url as default_files_url
from dragoman.sdk.kits import Offer, kit_for
from dragoman.sdk.manage import LABEL, Management, OnResources
from dragoman.sdk.pool import Pool
from dragoman.sdk.tasks import HandOver, Tasks, make_task
from dragoman.sdk.url import WORKER_PORTS, parse_url

log = structlog.get_logger("dragoman.worker")
F = TypeVar("F", bound=Callable[..., Any])

_TICK: Final = 0.25


class Worker:
    """Offers tasks under a service name. `run` serves until told to stop."""

    def __init__(
        self,
        url: str,
        service: str,
        *more_services: str,
        name: str | None = None,
        concurrency: int = 8,
        labels: Mapping[str, str] | None = None,
        resources: Sequence[str] = (),
        own_process_beats: bool = True,
        files_url: str | None = None,
        files_cache: Path | None = None,
        files_cache_bytes: int = LARGEST_CACHE,
        credentials: Given = None,
    ) -> None:
        self.endpoint = parse_url(url, WORKER_PORTS)
        self.services = (service, *more_services)
        self.name = name or f"{service}-{socket.gethostname()}-{os.getpid()}-{os.urandom(2).hex()}"
        self.concurrency = concurrency
        self.tasks = Tasks()
        proved = find_credentials(credentials)
        self._kit = kit_for(self.endpoint.dialect, proved)
        self._offer = Offer(
            self.name,
            self.services,
            concurrency,
            {**LABEL, **(labels or {}), **_announced(resources)},
            self.endpoint.options,
        )
        self._side: WorkerSide = self._kit.worker_side(self._offer, new_id)
        self._own_process = own_process_beats
        #: Brings the files that tasks are called with; from the same broker unless told otherwise.
        self._files = Fetcher(
            default_files_url(self.endpoint) if files_url is None else files_url,
            self.name,
            files_cache,
            proved,
            files_cache_bytes,
        )
        self._connection = Connection(self._make_transport, self._receive)
        self._transport: Any = None
        self._rejoining: asyncio.Task[None] | None = None
        #: How often the courier beats; 0 before it was told.
        self._pace = 0.0
        self._running: dict[str, JobContext] = {}
        #: What it answers beside its own tasks, and which of the running jobs are such questions.
        self.management = Management(self)
        self._managing: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: Pool | None = None
        self._thread: threading.Thread | None = None
        self._is_ready = threading.Event()
        self._is_draining = False
        self._stop: asyncio.Event | None = None
        #: Jobs finished since the start, by whether they succeeded.
        self.succeeded = 0
        self.failed = 0

    # --- offering tasks -----------------------------------------------------------------------

    def task(self, function: F | None = None, *, name: str | None = None) -> Any:
        """Offer a function as a task: `@worker.task` or `@worker.task(name="...")`."""
        if function is None:
            return partial(self.task, name=name)
        self.tasks.add(make_task(function, name))
        return function

    def fallback(self, function: F) -> F:
        """Offer a function for every call that names no task, such as raw bytes."""
        self.tasks.fallback = make_task(function)
        return function

    def on_resources(self, function: OnResources) -> OnResources:
        """Have a function told what resources the worker gained and lost."""
        self.management.on_resources = function
        return function

    # --- what management asks for -------------------------------------------------------------

    def running(self) -> list[str]:
        """Return the clients of the jobs that run."""
        found = list(self._running.items())
        return [job.client for ticket, job in found if ticket not in self._managing]

    def silent_for(self) -> float:
        """Return how long the broker has been silent."""
        return self._loop.time() - self._connection.heard_at if self._loop else 0.0

    def task_names(self) -> list[str]:
        """Return the tasks it offers."""
        return self.tasks.names()

    def go_down(self) -> None:
        """Finish what runs and stop."""
        if not self._is_draining:
            self._in_loop(self._told_to_stop)

    def join_again(self) -> None:
        """Begin anew on a new connection, when the answer to this has left."""

        def later() -> None:
            assert self._loop is not None
            self._loop.call_later(0.1, self._dismissed, Dismissed("asked to join again"))

        self._in_loop(later)

    # --- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; a second signal hands back what still runs."""
        asyncio.run(self._run_with_signals())

    async def _run_with_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        await self.serve()

    def _told_to_stop(self) -> None:
        if self._is_draining:
            self._hand_back_all()
        else:
            log.info("draining", running=len(self._running), worker=self.name)
            self._is_draining = True
        self._check_drained()

    def start(self) -> "Worker":
        """Serve in a background thread; returns when the worker has said that it is there."""
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self.serve()), name=f"dragoman {self.name}", daemon=True
        )
        self._thread.start()
        self._is_ready.wait(30.0)
        return self

    def stop(self, timeout: float = 30.0) -> None:
        """Drain and end the background thread; what runs after `timeout` is handed back."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._told_to_stop)
            thread.join(timeout)
            if thread.is_alive():
                loop.call_soon_threadsafe(self._told_to_stop)
                thread.join(5.0)

    def __enter__(self) -> "Worker":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def serve(self) -> None:
        """Serve until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._pool = Pool(self.concurrency, f"dragoman {self.name}")
        keeper = asyncio.create_task(self._keep(), name="dragoman worker keeper")
        try:
            await self._connection.open()
            self._join()
            self._is_ready.set()
            await self._stop.wait()
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            self._connection.send(self._side.leave())
            await self._connection.close()
            self._pool.close()
            await asyncio.to_thread(self._files.close)

    def _make_transport(self) -> Any:
        transport = self._kit.worker_transport(self.endpoint, self._offer, self._own_process)
        self._transport = transport
        return transport

    def _join(self) -> None:
        self._connection.send_first(self._side.join())
        self._pace = 0.0
        self._keep_pace()

    def _keep_pace(self) -> None:
        """Have the courier beat as often as the side says, which a broker's word may change."""
        keep_beating = getattr(self._transport, "keep_beating", None)
        if keep_beating is None or self._pace == self._side.beat_every:
            return
        self._pace = self._side.beat_every
        keep_beating(self._pace, [list(frames) for frames in self._side.beat()])

    async def _keep(self) -> None:
        """Beat, and start anew when the broker has been silent for too long."""
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + self._side.beat_every
        while True:
            await asyncio.sleep(min(_TICK, self._side.beat_every / 2))
            now = loop.time()
            if now >= beat_at and not hasattr(self._transport, "keep_beating"):
                self._connection.send(self._side.beat())
                beat_at = now + self._side.beat_every
            hold = self._side.hold
            if hold is not None and now - self._connection.heard_at >= hold:
                why = self._connection.refusal or "the broker is silent"
                log.warning(f"{why}; connecting anew", worker=self.name, after=hold)
                await self._rejoin()

    # --- what the broker says -----------------------------------------------------------------

    def _receive(self, frames: list[bytes]) -> None:
        for word in self._side.receive(frames):
            _HANDLERS[type(word)](self, word)
        self._keep_pace()

    def _work(self, work: Work) -> None:
        assert self._pool is not None
        if self._is_draining:
            self._connection.send(self._side.hand_back(work.ticket))
            return
        context = JobContext(work, self._say, new_id)
        self._running[work.ticket] = context
        self._connection.send(self._side.take(work.ticket))
        self._pool.submit(partial(self._execute, work, context))

    def _execute(self, work: Work, context: JobContext) -> None:
        """Run a job in a thread of the pool."""
        try:
            answer = self._run_task(work, context)
            if context.is_cancelled:
                answer = Answer(fault=Fault(FaultCode.CANCELLED, "stopped as asked"))
            done = partial(self._finish, work.ticket, answer)
        except HandOver as handover:
            done = partial(self._forward, work.ticket, handover)
        self._in_loop(done)

    def _run_task(self, work: Work, context: JobContext) -> Answer:
        if self.management.is_meant(work, self.tasks.find(work.call) is not None):
            self._managing.add(work.ticket)
            return self.management.run(work.call)
        try:
            call = self._files.resolved(work.call)
        except NotFetched as error:
            return Answer(fault=Fault(FaultCode.TASK_FAILED, str(error)))
        return self.tasks.run(call, context)

    def _finish(self, ticket: str, answer: Answer) -> None:
        if self._running.pop(ticket, None) is None:
            return
        if ticket in self._managing:
            self._managing.discard(ticket)
        elif answer.fault is None:
            self.succeeded += 1
        else:
            self.failed += 1
        self._connection.send(self._side.finish(ticket, answer))
        self._check_drained()

    def _forward(self, ticket: str, handover: HandOver) -> None:
        if self._running.pop(ticket, None) is None:
            return
        try:
            frames = self._side.forward(ticket, handover.service, handover.call)
        except Unsupported as error:
            fault = Fault(FaultCode.TASK_FAILED, str(error))
            frames = self._side.finish(ticket, Answer(fault=fault))
        self._connection.send(frames)
        self._check_drained()

    def _say(self, verb: str, *args: Any) -> None:
        """Let a task's thread say something through the side."""

        def speak() -> None:
            if args[0] not in self._running:
                # The job is over or was handed back; its task does not know yet.
                return
            try:
                self._connection.send(getattr(self._side, verb)(*args))
            except Unsupported as error:
                log.warning("not said", worker=self.name, verb=verb, reason=str(error))

        self._in_loop(speak)

    def publish(self, topic: str, event: Any) -> None:
        """Publish an event to whoever subscribed; may be called in any thread.

        Where the dialect has no word for it, a call to the broker's management says it.
        """

        def speak() -> None:
            assert self._loop is not None
            try:
                self._connection.send(self._side.publish(topic, event))
            except Unsupported:
                self._loop.run_in_executor(None, self._publish_by_call, topic, event)

        self._in_loop(speak)

    def _publish_by_call(self, topic: str, event: Any) -> None:
        try:
            self._files.publish(topic, event)
        except NotFetched as error:
            log.warning("not published", worker=self.name, reason=str(error))

    def _in_loop(self, work: Callable[[], None]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)

    def _stop_job(self, stop: Stop) -> None:
        context = self._running.get(stop.ticket)
        if context is not None:
            context.stop()

    def _input(self, given: InputGiven) -> None:
        context = self._running.get(given.ticket)
        if context is not None:
            context.give(given.request, given.answer)

    def _dismissed(self, word: Dismissed) -> None:
        """Join again, on a new socket, as the protocols ask; once, however often it is said."""
        if self._rejoining is not None and not self._rejoining.done():
            return
        log.info("dismissed; joining again", worker=self.name, reason=word.reason)
        assert self._loop is not None
        self._rejoining = self._loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        await self._connection.rebuild()
        # One that drains joins too while something runs: its result is of use to members only.
        if self._running or not self._is_draining:
            self._join()

    def _reply(self, reply: Reply) -> None:
        self._connection.send([reply.frames])

    def _alive(self, word: Alive) -> None:
        """Nothing to do: hearing from the broker is noted by the connection."""

    # --- going --------------------------------------------------------------------------------

    def _hand_back_all(self) -> None:
        for ticket in list(self._running):
            del self._running[ticket]
            self._connection.send(self._side.hand_back(ticket))

    def _check_drained(self) -> None:
        if self._is_draining and not self._running and self._stop is not None:
            self._stop.set()


def _announced(resources: Sequence[str]) -> dict[str, str]:
    """Write a worker's own resources as the label that says them."""
    return {ANNOUNCED: write_names(resources)} if resources else {}


_HANDLERS: Final[dict[type[Word], Callable[[Worker, Any], None]]] = {
    Work: Worker._work,
    Stop: Worker._stop_job,
    InputGiven: Worker._input,
    Dismissed: Worker._dismissed,
    Reply: Worker._reply,
    Alive: Worker._alive,
}
