"""The house as a client: asks workers something by an ordinary job, and waits for the answer."""

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

#: The name the house asks under.
ASKER: Final = "house"
#: A worker is asked once, now, and need not be waited for longer than this.
TERMS: Final = Terms(patience=0.0, timeout=10.0, max_attempts=1, strict=False)


class InternalClient:
    """Open questions of the house."""

    def __init__(
        self, hub: MemoryHub, submit: Callable[[Event], None], ids: Callable[[], str]
    ) -> None:
        self._submit = submit
        self._ids = ids
        self._codec = LocalBodyCodec()
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._peer = hub.connect(ASKER.encode())
        self._peer.wake = self._told

    async def ask(self, service: str, worker: str, call: Call) -> Answer:
        """Ask one worker of a service; whatever goes wrong is a fault in the answer."""
        job = JobId(self._ids())
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[job] = future
        body = self._codec.write_call(call)
        client, target = peer_id(NAME, ASKER), Named((WorkerName(worker),))
        asked = JobSubmitted(job, client, ServiceName(service), body, target, TERMS, call.task)
        self._submit(asked)
        try:
            async with asyncio.timeout((TERMS.timeout or 0.0) + 5.0):
                return await future
        except TimeoutError:
            return Answer(fault=Fault(FaultCode.JOB_TIMEOUT, f"{worker} did not answer"))
        finally:
            self._open.pop(job, None)

    def _told(self) -> None:
        while self._peer.inbox:
            message = wire.decode(self._peer.inbox.popleft())
            if not isinstance(message, wire.LocalJobEnded):
                continue
            future = self._open.get(message.job)
            if future is not None and not future.done():
                future.set_result(self._answer(message))

    def _answer(self, told: wire.LocalJobEnded) -> Answer:
        if told.fault:
            return Answer(fault=Fault(FaultCode(told.fault), told.message))
        try:
            return self._codec.read_answer(Body(NAME, (told.body,))) if told.body else Answer()
        except Unmappable as error:
            return Answer(fault=Fault(FaultCode.UNMAPPABLE, str(error)))


def value_of(answer: Answer) -> Any:
    """Return what a worker said, or its fault as an object."""
    if answer.fault is not None:
        return {"failed": True, "error": answer.fault.message or answer.fault.code.value}
    return answer.value if answer.raw is None else answer.raw
