"""Runs the built-in services: takes their jobs from the local link, and sends the answers."""

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
    """One service: its peer, its handler, and the sessions of its jobs."""

    def __init__(self, peer: MemoryPeer, handler: Handler) -> None:
        self.peer = peer
        self.handler = handler
        self.sessions: dict[str, ServiceSession] = {}


class ServiceRunner:
    """Runs built-in services on one hub."""

    def __init__(self, hub: MemoryHub) -> None:
        self._hub = hub
        self._codec = LocalBodyCodec()
        self._tasks: set[asyncio.Task[None]] = set()

    def offer(self, hosted: BuiltinService) -> None:
        """Register a service as a worker."""
        peer = self._hub.connect(hosted.name.encode())
        service = RunningService(peer, hosted.handler)
        peer.wake = lambda: self._serve(service)
        peer.say(wire.encode(wire.LocalJoin(hosted.services, hosted.credit)))

    async def close(self) -> None:
        """Cancel running calls; their jobs stay open in the ledger and run again later."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _serve(self, service: RunningService) -> None:
        while service.peer.inbox:
            message = wire.decode(service.peer.inbox.popleft())
            _HANDLERS[type(message)](self, service, message)

    def _work(self, service: RunningService, work: wire.LocalWork) -> None:
        session = ServiceSession(work.job, work.client, partial(self._send, service, work))
        service.sessions[work.job] = session
        try:
            call = self._codec.read_call(Body("local", (work.body,)))
            result = service.handler(call, session)
        except Exception as error:
            self._answer(service, work, _failure(error))
            return
        if isinstance(result, Awaitable):
            task = asyncio.ensure_future(self._finish(service, work, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answer(service, work, _as_answer(result))

    def _input(self, service: RunningService, given: wire.LocalInput) -> None:
        session = service.sessions.get(given.job)
        if session is not None:
            answer = self._codec.read_answer(Body("local", (given.body,)))
            session.add_input(answer.value if answer.raw is None else answer.raw)

    def _cancel(self, service: RunningService, asked: wire.LocalCancel) -> None:
        session = service.sessions.get(asked.job)
        if session is not None:
            session.stop()

    async def _finish(
        self, service: RunningService, work: wire.LocalWork, result: Awaitable[object]
    ) -> None:
        try:
            answer = _as_answer(await result)
        except Exception as error:
            answer = _failure(error)
        session = service.sessions.get(work.job)
        if session is not None and session.is_stopped and answer.fault is not None:
            answer = Answer(fault=Fault(FaultCode.CANCELLED, "cancelled by the client"))
        self._answer(service, work, answer)

    def _send(self, service: RunningService, work: wire.LocalWork, kind: str, item: object) -> None:
        answer = Answer(raw=item) if isinstance(item, bytes) else Answer(item)
        body = self._codec.write_answer(answer).parts[0]
        service.peer.say(wire.encode(wire.LocalReply(work.job, work.attempt, kind, body)))

    def _answer(self, service: RunningService, work: wire.LocalWork, answer: Answer) -> None:
        service.sessions.pop(work.job, None)
        try:
            body = self._codec.write_answer(answer)
        except Unmappable as error:
            body = self._codec.write_answer(_failure(error))
        service.peer.say(
            wire.encode(wire.LocalReply(work.job, work.attempt, "final", body.parts[0]))
        )


def _as_answer(result: object) -> Answer:
    return Answer(raw=result) if isinstance(result, bytes) else Answer(result)


def _failure(error: Exception) -> Answer:
    """Return the fault of an error; one of ours is named with its type."""
    message = str(error) if isinstance(error, ServiceFault) else f"{type(error).__name__}: {error}"
    return Answer(fault=Fault(FaultCode.TASK_FAILED, message))


def _nothing(host: ServiceRunner, service: RunningService, message: object) -> None:
    """Ignore a message that only services send."""


_HANDLERS: Final[dict[type, Callable[[ServiceRunner, RunningService, Any], None]]] = {
    wire.LocalWork: ServiceRunner._work,
    wire.LocalInput: ServiceRunner._input,
    wire.LocalCancel: ServiceRunner._cancel,
    wire.LocalJoin: _nothing,
    wire.LocalReply: _nothing,
    wire.LocalLeave: _nothing,
}
