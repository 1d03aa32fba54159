"""The host of the built-in services: takes their work from the local link, brings answers back."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from dragoman.dialects.local import wire
from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.model.body import Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.services.base import BuiltinService, Handler, ServiceFault, ServiceSession
from dragoman.transports.memory import MemoryHub, MemoryPeer


class RunningService:
    """One service at work: its peer, its handler, and the jobs it runs."""

    def __init__(self, peer: MemoryPeer, handler: Handler) -> None:
        self.peer = peer
        self.handler = handler
        self.running: dict[str, ServiceSession] = {}


class ServiceRunner:
    """Runs built-in services on one hub."""

    def __init__(self, hub: MemoryHub) -> None:
        self._hub = hub
        self._codec = LocalBodyCodec()
        self._tasks: set[asyncio.Task[None]] = set()

    def offer(self, hosted: BuiltinService) -> None:
        """Let a service join."""
        peer = self._hub.connect(hosted.name.encode())
        seat = RunningService(peer, hosted.handler)
        peer.wake = lambda: self._serve(seat)
        peer.say(wire.encode(wire.LocalJoin(hosted.services, hosted.credit)))

    async def close(self) -> None:
        """End what still runs; the jobs stay open in the ledger and are run again later."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _serve(self, seat: RunningService) -> None:
        while seat.peer.inbox:
            message = wire.decode(seat.peer.inbox.popleft())
            _HANDLERS[type(message)](self, seat, message)

    def _work(self, seat: RunningService, work: wire.LocalWork) -> None:
        session = ServiceSession(work.job, work.client, partial(self._say, seat, work))
        seat.running[work.job] = session
        try:
            call = self._codec.read_call(Body("local", (work.body,)))
            result = seat.handler(call, session)
        except Exception as error:
            self._answer(seat, work, _failure(error))
            return
        if isinstance(result, Awaitable):
            task = asyncio.ensure_future(self._finish(seat, work, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answer(seat, work, _as_answer(result))

    def _input(self, seat: RunningService, given: wire.LocalInput) -> None:
        session = seat.running.get(given.job)
        if session is not None:
            answer = self._codec.read_answer(Body("local", (given.body,)))
            session.give(answer.value if answer.raw is None else answer.raw)

    def _cancel(self, seat: RunningService, asked: wire.LocalCancel) -> None:
        session = seat.running.get(asked.job)
        if session is not None:
            session.stop()

    async def _finish(
        self, seat: RunningService, work: wire.LocalWork, result: Awaitable[Any]
    ) -> None:
        try:
            answer = _as_answer(await result)
        except Exception as error:
            answer = _failure(error)
        session = seat.running.get(work.job)
        if session is not None and session.is_stopped and answer.fault is not None:
            answer = Answer(fault=Fault(FaultCode.CANCELLED, "stopped as asked"))
        self._answer(seat, work, answer)

    def _say(self, seat: RunningService, work: wire.LocalWork, kind: str, said: Any) -> None:
        answer = Answer(raw=said) if isinstance(said, bytes) else Answer(said)
        body = self._codec.write_answer(answer).parts[0]
        seat.peer.say(wire.encode(wire.LocalReply(work.job, work.attempt, kind, body)))

    def _answer(self, seat: RunningService, work: wire.LocalWork, answer: Answer) -> None:
        seat.running.pop(work.job, None)
        try:
            body = self._codec.write_answer(answer)
        except Unmappable as error:
            body = self._codec.write_answer(_failure(error))
        seat.peer.say(wire.encode(wire.LocalReply(work.job, work.attempt, "final", body.parts[0])))


def _as_answer(result: Any) -> Answer:
    return Answer(raw=result) if isinstance(result, bytes) else Answer(result)


def _failure(error: Exception) -> Answer:
    """Say what went wrong: in the caller's words if it is the caller's fault."""
    words = str(error) if isinstance(error, ServiceFault) else f"{type(error).__name__}: {error}"
    return Answer(fault=Fault(FaultCode.TASK_FAILED, words))


def _nothing(host: ServiceRunner, seat: RunningService, message: Any) -> None:
    """Ignore what only services say."""


_HANDLERS: Final[dict[type, Callable[[ServiceRunner, RunningService, Any], None]]] = {
    wire.LocalWork: ServiceRunner._work,
    wire.LocalInput: ServiceRunner._input,
    wire.LocalCancel: ServiceRunner._cancel,
    wire.LocalJoin: _nothing,
    wire.LocalReply: _nothing,
    wire.LocalLeave: _nothing,
}
