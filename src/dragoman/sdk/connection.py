"""A peer's connection to its broker. It owns the transport and replaces it on request."""

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from dragoman.dialects.base import Frames
from dragoman.transports.base import Sent, Transport

_DRAIN: Final = 1000
#: Messages that may wait for a full transport; more raise `BufferError`.
_BACKLOG: Final = 100_000


class BrokerConnection:
    """Sends and receives frames over one transport at a time."""

    def __init__(
        self, make: Callable[[], Transport], receive: Callable[[list[bytes]], None]
    ) -> None:
        self._make = make
        self._receive = receive
        self._transport: Transport | None = None
        self._waiting: list[Frames] = []
        self._is_closed = False
        self._is_rebuilding = False
        #: When the last message arrived, on the loop's clock.
        self.heard_at = 0.0

    @property
    def refusal(self) -> str:
        """Why the broker refused this peer's credentials; empty if it did not."""
        return str(getattr(self._transport, "refusal", ""))

    @property
    def reconnections(self) -> int:
        """How often the transport has moved to another address by itself."""
        return int(getattr(self._transport, "reconnections", 0))

    @property
    def connection_hint(self) -> str:
        """The likely reason why the broker does not answer; empty if the transport has none."""
        return str(getattr(self._transport, "connection_hint", ""))

    async def open(self) -> None:
        """Connect. This never fails: an absent broker shows as silence."""
        self.heard_at = monotonic()
        self._transport = transport = self._make()
        await transport.open(self._drain)

    def discount_silence(self, seconds: float) -> None:
        """Exclude some seconds from the broker's silence: this process could not read then."""
        self.heard_at = min(self.heard_at + seconds, monotonic())

    def _drain(self) -> None:
        transport = self._transport
        if transport is None:
            return
        for _, frames in transport.drain(_DRAIN):
            self.heard_at = monotonic()
            self._receive(frames)
        self._retry()
        transport.flush()

    def send(self, messages: Iterable[Frames]) -> None:
        """Send messages in order. If the transport is full, the rest waits here."""
        self._waiting.extend(messages)
        self._retry()
        if self._transport is not None:
            self._transport.flush()

    def send_first(self, messages: Iterable[Frames]) -> None:
        """Send messages before those that already wait."""
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
        """Close the socket and open a new one. Waiting messages are dropped; the caller repeats.

        A transport with `heals_itself` reconnects and repeats requests, so it stays; if it knows
        another address, it moves on. A transport with `renew` opens the new socket itself, which
        is cheaper than a new transport.
        """
        if getattr(self._transport, "heals_itself", False):
            move_on = getattr(self._transport, "move_on", None)
            if move_on is not None:
                move_on()
            # Count silence from now on, so that the caller waits as long again.
            self.heard_at = monotonic()
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
        """Have the transport open a new socket; return whether it could."""
        renew = getattr(transport, "renew", None)
        if renew is None or self._is_closed or not await renew() or self._is_closed:
            return False
        self.heard_at = monotonic()
        self._transport = transport
        self._drain()
        return True

    async def _replace(self, transport: Transport | None) -> None:
        if transport is not None:
            await transport.close()
        if not self._is_closed:
            await self.open()

    async def close(self) -> None:
        """Close the transport for good."""
        self._is_closed = True
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()
