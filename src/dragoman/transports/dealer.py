"""A peer's end of ZeroMQ on asyncio: one TCP or IPC connection, restored when it is lost.

If the broker has several addresses, each attempt uses the next one.

It speaks ZMTP itself (`zmtp_dealer`), so that all messages of one turn of the loop are one write.
Messages that are sent while the connection is lost wait for the next one, as in libzmq.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dragoman.transports.accepted_connection import keep_alive
from dragoman.transports.addresses import Addresses, split_endpoint
from dragoman.transports.base import Address, Frames, Sent, pop_messages
from dragoman.transports.zmq_peers import (
    LINGER_MS,
    MAX_FRAME,
    NO_CURVE,
    NO_KEYS,
    SEND_HWM,
    UNKNOWN_KEY,
    CurveKeys,
)
from dragoman.transports.zmtp_dealer import (
    MISMATCH,
    REFUSED,
    DealerSession,
    dealer_properties,
)
from dragoman.transports.zmtp_mechanism import ConnectionRejected, PeerMechanism

#: Seconds between two attempts to connect.
RECONNECT_EVERY: Final = 0.1
#: Bytes in the write buffer beyond which `send` answers `Sent.FULL`.
_UNSENT: Final = 64 * 1024 * 1024


def mechanism_for(keys: CurveKeys | None, identity: bytes) -> PeerMechanism | None:
    """Make a CURVE mechanism; None without keys."""
    if keys is None:
        return None
    from dragoman.transports.zmtp_curve_client import CurveClient

    return CurveClient(keys.public, keys.secret, keys.server, dealer_properties(identity))


def refusal_of(reason: str, has_keys: bool) -> str:
    """Return the text of a refusal for the user; empty if the reason is none."""
    if reason == REFUSED:
        return UNKNOWN_KEY
    if reason == MISMATCH:
        return NO_CURVE if has_keys else NO_KEYS
    return ""


class Dealer(asyncio.Protocol):
    """A peer's end: one broker. The address is not used."""

    def __init__(
        self,
        endpoint: str,
        identity: bytes = b"",
        *,
        keys: CurveKeys | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self._endpoint = endpoint
        self._addresses = Addresses(endpoint)
        self._identity = identity
        self._keys = keys
        self._max_frame = max_frame
        self._wake: Callable[[], None] = lambda: None
        self._session = self._new_session()
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._opened = asyncio.Event()
        #: Set when a handshake is over, or its connection lost.
        self._settled = asyncio.Event()
        self._has_opened_once = False
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        #: Messages that wait for an open connection.
        self._pending: deque[Frames] = deque()
        #: Encoded messages of this turn.
        self._out: list[bytes] = []
        self._is_writing = False
        #: Why the broker refuses this peer, if that is known.
        self.refusal = ""
        #: How often it has connected again, if the broker has several addresses.
        self.reconnections = 0

    def _new_session(self) -> DealerSession:
        mechanism = mechanism_for(self._keys, self._identity)
        return DealerSession(mechanism, self._identity, self._max_frame)

    # --- connecting ---------------------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Connect in the background, again and again."""
        self._wake = wake
        self._connecting = asyncio.create_task(self._keep_connected(), name="dragoman dealer")
        return self._endpoint

    async def _keep_connected(self) -> None:
        while True:
            self._lost.clear()
            self._settled.clear()
            with suppress(OSError):
                await self._connect_in_time()
                await self._lost.wait()
            self._addresses.move_on()
            await asyncio.sleep(RECONNECT_EVERY)

    async def _connect_in_time(self) -> None:
        """Connect. If there are other addresses, this one has a limited time to answer."""
        patience = self._addresses.patience
        try:
            async with asyncio.timeout(patience):
                await self._connect()
                if patience is not None:
                    await self._settled.wait()
        except TimeoutError:
            if self._transport is None:
                raise
            self._transport.abort()

    async def _connect(self) -> None:
        loop, address = asyncio.get_running_loop(), self._addresses.current
        if address.startswith("ipc://"):
            await loop.create_unix_connection(lambda: self, address.removeprefix("ipc://"))
        else:
            host, port = split_endpoint(address)
            await loop.create_connection(lambda: self, host, port)

    async def renew(self) -> bool:
        """Connect to the next address; return False if there is only one."""
        if len(self._addresses.all) == 1:
            return False
        self._arrived.clear()
        self._pending.clear()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._session = transport, self._new_session()
        if not self._endpoint.startswith("ipc://"):
            keep_alive(transport.get_extra_info("socket"))
        transport.write(self._session.greeting())

    def connection_lost(self, exc: Exception | None) -> None:
        """Have the connection restored."""
        is_new = not self._session.is_open and not self._has_opened_once
        if is_new and self._keys is not None and self._addresses.have_all_failed:
            # A wrong broker key has no other symptom.
            self.refusal = self.refusal or NO_CURVE
            self._wake()
        self._transport = None
        self._out.clear()
        self._opened.clear()
        self._settled.set()
        self._lost.set()

    # --- reading ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Read bytes; wake the caller if messages are complete."""
        was_open = self._session.is_open
        try:
            messages, answer = self._session.receive(data)
        except ConnectionRejected as rejected:
            self.refusal = refusal_of(rejected.reason, self._keys is not None) or self.refusal
            if self._transport is not None:
                self._transport.abort()
            self._wake()
            return
        if answer and self._transport is not None:
            self._transport.write(answer)
        if self._session.is_open and not was_open:
            self._open_session()
        if messages:
            self._arrived.extend([(b"", message) for message in messages])
            self._wake()

    def _open_session(self) -> None:
        self.refusal = ""
        self.reconnections += self._has_opened_once and len(self._addresses.all) > 1
        self._has_opened_once = True
        self._addresses.answered()
        self._opened.set()
        self._settled.set()
        while self._pending:
            self._session.encode(self._pending.popleft(), self._out)
        self._write()

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Return up to `limit` received messages."""
        return pop_messages(self._arrived, limit, self._wake)

    # --- writing ------------------------------------------------------------------------------

    def send(self, address: Address, frames: Frames) -> Sent:
        """Queue a message; it is written at the end of this turn of the loop."""
        if not self._session.is_open or self._transport is None:
            if len(self._pending) >= SEND_HWM:
                return Sent.FULL
            self._pending.append(frames)
        elif self._transport.get_write_buffer_size() > _UNSENT:
            return Sent.FULL
        else:
            self._session.encode(frames, self._out)
        return Sent.YES

    def flush(self) -> None:
        """Write what was sent, once for all calls in this turn of the loop."""
        if self._out and not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_writing = False
        if self._out and self._transport is not None:
            out, self._out = self._out, []
            self._transport.write(b"".join(out))

    async def close(self) -> None:
        """Close the connection; sent messages have a short time to be written."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_MS / 1000):
                if self._pending:
                    await self._opened.wait()
                self._write()
                if self._transport is not None:
                    self._transport.close()
                    await self._lost.wait()
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._connecting
        if self._transport is not None:
            self._transport.abort()
