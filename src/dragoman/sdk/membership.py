"""A worker's membership at its broker: it joins, beats, and joins anew when it has to.

What lives here: the connection, and the words that are about being a member. What must not: jobs.
Their words are handed on, and whoever hears them answers with `send`. All of it belongs to the
worker's loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import structlog

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import Alive, Dismissed, SendNow, WorkerNotice, WorkerSide
from dragoman.sdk.connection import BrokerConnection
from dragoman.transports.base import Transport

log = structlog.get_logger("dragoman.worker")

_TICK: Final = 0.25


class Membership:
    """One worker's, for as long as the block of `joined` lasts.

    `hear` gets every word that is about a job; `is_wanted` says whether it makes sense to be a
    member still when the connection has to be made anew.
    """

    def __init__(
        self,
        name: str,
        side: WorkerSide,
        make: Callable[[], Transport],
        hear: Callable[[WorkerNotice], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        self._name = name
        self._side = side
        self._make = make
        self._hear = hear
        self._is_wanted = is_wanted
        self._connection = BrokerConnection(self._make_transport, self._receive)
        #: The transport made last; it may have abilities that not all have, such as `keep_beating`.
        self.transport: Any = None
        self._rejoining: asyncio.Task[None] | None = None
        #: How often the courier beats; 0 before it was told.
        self._pace = 0.0

    @contextlib.asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        """Be a member until the block ends; then say good-bye."""
        keeper = asyncio.create_task(self._keep(), name="dragoman worker keeper")
        try:
            await self._connection.open()
            self._join()
            yield
        finally:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
            self.send(self._side.leave())
            await self._connection.close()

    def send(self, messages: Iterable[Frames]) -> None:
        """Send what the side has made, in order."""
        self._connection.send(messages)

    def silent_for(self, now: float) -> float:
        """Return how long the broker has been silent, on the loop's clock."""
        return now - self._connection.heard_at

    def renew(self, reason: str) -> None:
        """Join again, on a new socket, as the protocols ask; once, however often it is said."""
        if self._rejoining is not None and not self._rejoining.done():
            return
        log.info("dismissed; joining again", worker=self._name, reason=reason)
        self._rejoining = asyncio.get_running_loop().create_task(self._rejoin())

    async def _rejoin(self) -> None:
        await self._connection.rebuild()
        if self._is_wanted():
            self._join()

    def _join(self) -> None:
        self._connection.send_first(self._side.join())
        self._pace = 0.0
        self._keep_pace()

    def _make_transport(self) -> Transport:
        self.transport = transport = self._make()
        return transport

    # --- beats --------------------------------------------------------------------------------

    def _keep_pace(self) -> None:
        """Have the courier beat as often as the side says, which a broker's word may change."""
        keep_beating = getattr(self.transport, "keep_beating", None)
        if keep_beating is None or self._pace == self._side.beat_every:
            return
        self._pace = self._side.beat_every
        keep_beating(self._pace, [list(frames) for frames in self._side.beat()])

    async def _keep(self) -> None:
        """Beat, and start anew when the broker has been silent for too long."""
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + self._side.beat_every
        while True:
            tick, slept_at = min(_TICK, self._side.beat_every / 2), loop.time()
            await asyncio.sleep(tick)
            now = loop.time()
            # A task that holds the interpreter lock makes us deaf: what the broker said meanwhile
            # is still to be read, and whoever did not listen cannot call it silent. The tick itself
            # counts, so that a worker which is always late finds a dead broker too, if later.
            if now - slept_at > 2 * tick:
                self._connection.discount_silence(now - slept_at - tick)
            if now >= beat_at and not hasattr(self.transport, "keep_beating"):
                self.send(self._side.beat())
                beat_at = now + self._side.beat_every
            hold = self._side.hold
            if hold is not None and self.silent_for(now) >= hold:
                why = self._connection.refusal or "the broker is silent"
                log.warning(f"{why}; connecting anew", worker=self._name, after=hold)
                await self._rejoin()

    # --- what the broker says -----------------------------------------------------------------

    def _receive(self, frames: list[bytes]) -> None:
        for word in self._side.receive(frames):
            take = _OWN.get(type(word))
            if take is None:
                self._hear(word)
            else:
                take(self, word)
        self._keep_pace()

    def _dismissed(self, word: Dismissed) -> None:
        self.renew(word.reason)

    def _reply(self, reply: SendNow) -> None:
        self.send([reply.frames])

    def _alive(self, word: Alive) -> None:
        """Nothing to do: hearing from the broker is noted by the connection."""


_OWN: Final[dict[type[WorkerNotice], Callable[[Membership, Any], None]]] = {
    Dismissed: Membership._dismissed,
    SendNow: Membership._reply,
    Alive: Membership._alive,
}
