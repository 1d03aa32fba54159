"""A loop on a memory ledger and the local dialect: a whole server without sockets or disk."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman.core.broker import Broker
from dragoman.dialects.local import wire
from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.dialects.local.broker_side import LocalBrokerSide
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.content import Answer, Call
from dragoman.server.clock import Clock
from dragoman.server.links import Link, Links
from dragoman.server.loop import Loop
from dragoman.transports.memory import MemoryHub, MemoryPeer

CODEC = LocalBodyCodec()


class MemoryServer:
    """What a test needs in its hands."""

    def __init__(self, ledger: MemoryLedger | None = None) -> None:
        self.ledger = ledger or MemoryLedger()
        self.hub = MemoryHub()
        self.broker = Broker()
        self.links = Links([Link(LocalBrokerSide({"local": CODEC}), self.hub)])
        self.loop = Loop(self.broker, self.ledger, self.links, Clock())

    def worker(self, name: str, *services: str, credit: int = 10) -> MemoryPeer:
        peer = self.hub.connect(name.encode())
        peer.say(wire.encode(wire.LocalJoin(services, credit)))
        return peer

    def has_workers(self) -> bool:
        return bool(self.broker.state.registry.workers)

    def run(self, scenario: Callable[["MemoryServer"], Awaitable[Any]]) -> Any:
        """Run the loop and a scenario beside it; both must end."""

        async def both() -> Any:
            await self.links.open()
            serving = asyncio.create_task(self.loop.run())
            try:
                async with asyncio.timeout(10):
                    return await scenario(self)
            finally:
                self.loop.stop()
                await serving
                await self.links.close()

        return asyncio.run(both())


async def settle(condition: Callable[[], object]) -> None:
    """Let the loop turn until a condition holds."""
    while not condition():  # noqa: ASYNC110 - the condition has no event of its own
        await asyncio.sleep(0)


def answer(work: wire.LocalWork, value: Any) -> list[bytes]:
    body = CODEC.write_answer(Answer(value)).parts[0]
    return wire.encode(wire.LocalReply(work.job, work.attempt, "final", body))


def call_body(task: str, *args: Any) -> Any:
    return CODEC.write_call(Call(task, args))
