"""The broker as a client: calls a worker by an ordinary job, and waits for the answer."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from dragoman.core.events import Event, JobSubmitted
from dragoman.dialects.local import wire
from dragoman.dialects.local.body_codec import NAME, LocalBodyCodec
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, ServiceName, WorkerName, peer_id
from dragoman.model.target import Named
from dragoman.model.terms import Terms
from dragoman.transports.memory import MemoryHub

#: The client name of the broker's own calls.
CLIENT_NAME: Final = "house"
#: One attempt, at once, and at most this long.
TERMS: Final = Terms(patience=0.0, timeout=10.0, max_attempts=1, strict=False)


class InternalClient:
    """Open calls of the broker itself."""

    def __init__(
        self, hub: MemoryHub, submit: Callable[[Event], None], ids: Callable[[], str]
    ) -> None:
        self._submit = submit
        self._ids = ids
        self._codec = LocalBodyCodec()
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._peer = hub.connect(CLIENT_NAME.encode())
        self._peer.wake = self._receive

    async def ask(self, service: str, worker: str, call: Call) -> Answer:
        """Call one worker of a service; every failure is a fault in the answer."""
        job = JobId(self._ids())
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[job] = future
        body = self._codec.write_call(call)
        client, target = peer_id(NAME, CLIENT_NAME), Named((WorkerName(worker),))
        asked = JobSubmitted(job, client, ServiceName(service), body, target, TERMS, call.task)
        self._submit(asked)
        try:
            async with asyncio.timeout((TERMS.timeout or 0.0) + 5.0):
                return await future
        except TimeoutError:
            return Answer(fault=Fault(FaultCode.JOB_TIMEOUT, f"{worker} did not answer"))
        finally:
            self._open.pop(job, None)

    def _receive(self) -> None:
        while self._peer.inbox:
            message = wire.decode(self._peer.inbox.popleft())
            if not isinstance(message, wire.LocalJobEnded):
                continue
            future = self._open.get(message.job)
            if future is not None and not future.done():
                future.set_result(self._answer(message))

    def _answer(self, result: wire.LocalJobEnded) -> Answer:
        if result.fault:
            return Answer(fault=Fault(FaultCode(result.fault), result.message))
        try:
            return self._codec.read_answer(Body(NAME, (result.body,))) if result.body else Answer()
        except Unmappable as error:
            return Answer(fault=Fault(FaultCode.UNMAPPABLE, str(error)))


def value_of(answer: Answer) -> Any:
    """Return a worker's value, or its fault as an object."""
    if answer.fault is not None:
        return {"failed": True, "error": answer.fault.message or answer.fault.code.value}
    return answer.value if answer.raw is None else answer.raw
