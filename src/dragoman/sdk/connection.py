"""A peer's connection to its broker: frames in, frames out, rebuilt when the broker is silent."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from dragoman.dialects.base import Frames
from dragoman.transports.base import Sent, Transport

_DRAIN: Final = 1000
#: Messages that wait for a full transport before the oldest duty is to fail.
_BACKLOG: Final = 100_000


class BrokerConnection:
    """Owns a transport and makes a new one when asked to start anew."""

    def __init__(
        self, make: Callable[[], Transport], receive: Callable[[list[bytes]], None]
    ) -> None:
        self._make = make
        self._receive = receive
        self._transport: Transport | None = None
        self._waiting: list[Frames] = []
        self._is_closed = False
        self._is_rebuilding = False
        #: When something was last heard, on the loop's clock.
        self.heard_at = 0.0

    @property
    def refusal(self) -> str:
        """Why the broker does not let this peer in, if it said so; empty otherwise."""
        return str(getattr(self._transport, "refusal", ""))

    @property
    def suspicion(self) -> str:
        """What may be wrong with a broker that is not heard, if the transport has an idea."""
        return str(getattr(self._transport, "suspicion", ""))

    async def open(self) -> None:
        """Connect. Connecting never fails by itself: silence is what tells."""
        self.heard_at = asyncio.get_running_loop().time()
        self._transport = transport = self._make()
        await transport.open(self._drain)

    def discount_silence(self, seconds: float) -> None:
        """Do not count some time as silence of the broker: nobody here could listen."""
        self.heard_at = min(self.heard_at + seconds, asyncio.get_running_loop().time())

    def _drain(self) -> None:
        transport = self._transport
        if transport is None:
            return
        for _, frames in transport.drain(_DRAIN):
            self.heard_at = asyncio.get_running_loop().time()
            self._receive(frames)
        self._retry()
        transport.flush()

    def send(self, messages: Iterable[Frames]) -> None:
        """Send messages in order; what a full transport does not take waits here."""
        self._waiting.extend(messages)
        self._retry()
        if self._transport is not None:
            self._transport.flush()

    def send_first(self, messages: Iterable[Frames]) -> None:
        """Send messages before whatever came up while there was no connection."""
        self._waiting[:0] = messages
        self.send(())

    def _retry(self) -> None:
        if self._transport is None:
            return
        for at, frames in enumerate(self._waiting):
            if self._transport.send(b"", frames) is not Sent.YES:
                del self._waiting[:at]
                if len(self._waiting) > _BACKLOG:
                    raise BufferError(f"{len(self._waiting)} messages wait for the broker")
                asyncio.get_running_loop().call_later(0.05, self._retry)
                return
        self._waiting.clear()

    async def rebuild(self) -> None:
        """Close the socket and connect on a new one; what waited is the caller's to say again.

        A transport that reconnects and repeats by itself is left alone: a new one would ask anew.
        One that can renew itself does, which is cheaper than another one.
        """
        if getattr(self._transport, "heals_itself", False):
            # It is given as long again before anybody complains the next time.
            self.heard_at = asyncio.get_running_loop().time()
            return
        if self._is_rebuilding:
            return
        transport, self._transport = self._transport, None
        self._waiting.clear()
        self._is_rebuilding = True
        try:
            if transport is None or not await self._renew(transport):
                await self._replace(transport)
        finally:
            self._is_rebuilding = False

    async def _renew(self, transport: Transport) -> bool:
        """Let a transport begin anew, if it can."""
        renew = getattr(transport, "renew", None)
        if renew is None or self._is_closed or not await renew() or self._is_closed:
            return False
        self.heard_at = asyncio.get_running_loop().time()
        self._transport = transport
        self._drain()
        return True

    async def _replace(self, transport: Transport | None) -> None:
        if transport is not None:
            await transport.close()
        if not self._is_closed:
            await self.open()

    async def close(self) -> None:
        """Let go."""
        self._is_closed = True
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()
