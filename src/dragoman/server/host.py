"""The host of the built-in services: takes their work from the local link, brings answers back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.dialects.local import wire
from dragoman.dialects.local.dress import Dress
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.transports.memory import MemoryHub, MemoryPeer

#: Runs one call. Quick ones answer in the loop's thread; slow ones are coroutines.
Handler = Callable[[Call], Any | Awaitable[Any]]


class ServiceFault(Exception):
    """Raised by a service: the caller's fault, in words for the caller."""


class Host:
    """Runs built-in services on one hub."""

    def __init__(self, hub: MemoryHub) -> None:
        self._hub = hub
        self._dress = Dress()
        self._tasks: set[asyncio.Task[None]] = set()

    def offer(self, name: str, services: tuple[str, ...], handler: Handler, credit: int) -> None:
        """Let a service join; it takes `credit` jobs at a time."""
        peer = self._hub.connect(name.encode())
        peer.wake = lambda: self._serve(peer, handler)
        peer.say(wire.encode(wire.Join(services, credit)))

    def _serve(self, peer: MemoryPeer, handler: Handler) -> None:
        while peer.inbox:
            message = wire.decode(peer.inbox.popleft())
            if isinstance(message, wire.Work):
                self._run(peer, handler, message)

    def _run(self, peer: MemoryPeer, handler: Handler, work: wire.Work) -> None:
        try:
            call = self._dress.read_call(Body("local", (work.body,)))
            result = handler(call)
        except Exception as error:
            self._answer(peer, work, _failure(error))
            return
        if isinstance(result, Awaitable):
            task = asyncio.ensure_future(self._finish(peer, work, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answer(peer, work, Answer(result))

    async def _finish(self, peer: MemoryPeer, work: wire.Work, result: Awaitable[Any]) -> None:
        try:
            answer = Answer(await result)
        except Exception as error:
            answer = _failure(error)
        self._answer(peer, work, answer)

    def _answer(self, peer: MemoryPeer, work: wire.Work, answer: Answer) -> None:
        try:
            body = self._dress.write_answer(answer)
        except Unmappable as error:
            body = self._dress.write_answer(_failure(error))
        peer.say(wire.encode(wire.Reply(work.job, work.attempt, "final", body.parts[0])))


def _failure(error: Exception) -> Answer:
    """Say what went wrong: in the caller's words if it is the caller's fault."""
    words = str(error) if isinstance(error, ServiceFault) else f"{type(error).__name__}: {error}"
    return Answer(fault=Fault(FaultCode.TASK_FAILED, words))
