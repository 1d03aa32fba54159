"""Passes TCP connections through to another broker: bytes both ways, unread.

One listener serves every dialect, because each is plain TCP; CURVE and TLS stay end to end. A
connection is accepted at once, and waits a short time for the other broker. Reading pauses while
the other end does not read, so a connection holds a bounded number of bytes. If one direction
ends, the other goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from dragoman.transports.accepted_connection import (
    AcceptedConnection,
    ConnectionLimits,
    ConnectionOwner,
    keep_alive,
)
from dragoman.transports.addresses import split_endpoint
from dragoman.transports.listener import Listener

#: Bytes in a write buffer beyond which the other end is not read.
_UNSENT: Final = 256 * 1024
#: Seconds that a connection waits for a broker to pass it to, and one attempt to reach it.
PATIENCE: Final = 5.0
_CONNECT_WITHIN: Final = 2.0
#: Seconds that a refused peer has to read the answer; and its time to wait until then.
_LINGER: Final = 0.3
_REFUSED_AFTER: Final = PATIENCE - 2 * _LINGER
#: Seconds between two looks for a broker.
_LOOK_EVERY: Final = 0.05
_NO_FAR_END: Final = "not connected"
_FULL: Final = "the other end does not read"

#: Returns the address to pass connections to, or None if there is none now.
Target = Callable[[], str | None]
#: Tells the other broker whose connection comes: our own end of it, and the peer's address.
Announce = Callable[[str, str], Awaitable[None]]


class PassedConnection(AcceptedConnection):
    """The peer's end of one connection that is passed through."""

    def __init__(
        self, owner: ConnectionOwner, is_ipc: bool, begin: Callable[["PassedConnection"], None]
    ) -> None:
        super().__init__(owner, is_ipc)
        self._begin = begin
        self.far: FarEnd | None = None
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read nothing until the other end is there."""
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=_UNSENT)
        if not self.transport.is_closing():
            self.pause_for(_NO_FAR_END)
            self._begin(self)

    def join(self, far: "FarEnd") -> None:
        """Begin to pass bytes."""
        self.far, far.near = far, self
        self.owner.greeted(self)
        self.resume_for(_NO_FAR_END)

    def refuse(self, answer: bytes) -> None:
        """Answer instead of a broker, and close. What the peer sent is read, and dropped."""
        self.resume_for(_NO_FAR_END)
        self.transport.write(answer)
        # A connection that is closed with unread bytes is reset, and the answer lost.
        asyncio.get_running_loop().call_later(_LINGER, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self.far is not None:
            self.far.transport.write(data)

    def eof_received(self) -> bool:
        """Pass the end of this direction on; the other direction stays open."""
        if self.far is None:
            return False
        self.has_ended = True
        return self.far.finish()

    def finish(self) -> bool:
        """End the direction to the peer; return whether the other one is still open."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        return not self.has_ended

    def pause_writing(self) -> None:
        """Stop reading from the broker: the peer does not read."""
        if self.far is not None:
            self.far.transport.pause_reading()

    def resume_writing(self) -> None:
        """Read from the broker again."""
        if self.far is not None and not self.far.transport.is_closing():
            self.far.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end, too, once its bytes are written."""
        super().connection_lost(exc)
        if self.far is not None:
            end(self.far.transport, exc)

    def fail(self, reason: str) -> None:
        """Abort both ends."""
        super().fail(reason)
        if self.far is not None:
            self.far.transport.abort()

    def __repr__(self) -> str:
        """Name it for the log."""
        return f"passed connection of {origin_text(self.transport)}"


class FarEnd(asyncio.Protocol):
    """The broker's end of one connection that is passed through."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.near: PassedConnection | None = None
        self.has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read nothing until the peer's end is joined."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_UNSENT)
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self.near is not None:
            self.near.transport.write(data)

    def eof_received(self) -> bool:
        """Pass the end of this direction on; the other direction stays open."""
        self.has_ended = True
        return self.near is not None and self.near.finish()

    def finish(self) -> bool:
        """End the direction to the broker; return whether the other one is still open."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        return not self.has_ended

    def pause_writing(self) -> None:
        """Stop reading from the peer: the broker does not read."""
        if self.near is not None:
            self.near.pause_for(_FULL)

    def resume_writing(self) -> None:
        """Read from the peer again."""
        if self.near is not None:
            self.near.resume_for(_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the peer's end, too, once its bytes are written."""
        if self.near is not None:
            end(self.near.transport, exc)


class PassThroughListener(Listener[PassedConnection]):
    """Listens at the endpoints of one link and passes its connections through."""

    def __init__(
        self,
        endpoints: str,
        target: Target,
        announce: Announce | None = None,
        limits: ConnectionLimits | None = None,
        refusal: bytes = b"",
        refused_after: float = _REFUSED_AFTER,
    ) -> None:
        super().__init__(endpoints, limits or ConnectionLimits(greeting=PATIENCE))
        #: What a peer gets if there is no broker for it in time; empty: it is cut.
        self._refusal, self._refused_after = refusal, refused_after
        self._target = target
        self._announce = announce
        self._joining: set[asyncio.Task[None]] = set()

    def cut(self, key: str = "") -> None:
        """Abort every connection: their broker has changed."""
        for connection in list(self._accepted):
            connection.fail("the broker has changed")

    async def close(self) -> None:
        """Stop listening and abort every connection."""
        for task in self._joining:
            task.cancel()
        await asyncio.gather(*self._joining, return_exceptions=True)
        self.cut()
        await super().close()

    def _protocol(self, number: int, is_ipc: bool) -> Callable[[], asyncio.Protocol]:
        return lambda: PassedConnection(self, is_ipc, self._begin)

    def _begin(self, connection: PassedConnection) -> None:
        task = asyncio.get_running_loop().create_task(self._join(connection))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, connection: PassedConnection) -> None:
        """Connect to the broker, and try again until the peer's time to wait is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._refused_after
        while not connection.transport.is_closing():
            if self._refusal and loop.time() >= until:
                connection.refuse(self._refusal)
                return
            address = self._target()
            if address is not None:
                try:
                    await self._connect(connection, address)
                except OSError as error:
                    self.trouble[f"no connection to the broker: {error.strerror or error}"] += 1
                else:
                    return
            await asyncio.sleep(_LOOK_EVERY)

    async def _connect(self, connection: PassedConnection, address: str) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_WITHIN):
            transport, far = await loop.create_connection(FarEnd, *split_endpoint(address))
            try:
                transport.pause_reading()
                if self._announce is not None:
                    own = address_text(transport.get_extra_info("sockname"))
                    await self._announce(own, origin_text(connection.transport))
            except BaseException:
                transport.abort()
                raise
        if connection.transport.is_closing() or address != self._target():
            transport.abort()
            raise ConnectionError("the broker has changed")
        connection.join(far)
        if not transport.is_closing():
            transport.resume_reading()


def end(transport: asyncio.Transport, error: Exception | None) -> None:
    """Close the other end of a lost connection; a connection that was reset resets it, too."""
    if error is None:
        transport.close()
    else:
        transport.abort()


def address_text(name: object) -> str:
    """Return a socket's address as text; empty for IPC."""
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else ""


def origin_text(transport: asyncio.Transport) -> str:
    """Return the address of a connection's peer as text."""
    return address_text(transport.get_extra_info("peername"))
