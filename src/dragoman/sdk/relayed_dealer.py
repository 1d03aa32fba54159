"""The worker's end of a relay: a DEALER whose socket is in another process (`beat_relay`)."""

import asyncio
from collections import deque
from collections.abc import Callable

from dragoman.sdk.beat_relay import (
    BYTES,
    CONNECTED,
    GREETING,
    PULSE,
    RENEW,
    Records,
    pack,
    pack_beat,
)
from dragoman.sdk.child_process import GRACE, PATIENCE, ChildProcess
from dragoman.transports.base import Address, Frames, Sent, pop_messages
from dragoman.transports.dealer import refusal_of
from dragoman.transports.zmq_peers import MAX_FRAME, SEND_HWM
from dragoman.transports.zmtp_dealer import DealerSession
from dragoman.transports.zmtp_mechanism import ConnectionRejected


class RelayedDealer:
    """A DEALER that sends heartbeats even if this process is busy. Without CURVE."""

    def __init__(self, endpoint: str, identity: bytes) -> None:
        self._endpoint = endpoint
        self._identity = identity
        #: Why the broker refused the handshake; empty if it did not.
        self.refusal = ""
        self._helper = ChildProcess(self._read, pack(PULSE))
        self._records = Records()
        self._session = self._new_session()
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        #: Messages that wait for an open connection.
        self._pending: deque[Frames] = deque()
        #: The heartbeat that waits for an open connection.
        self._beat: tuple[float, list[list[bytes]]] | None = None
        #: Encoded messages of this turn of the loop.
        self._messages: list[bytes] = []
        self._is_writing = False
        self._wake: Callable[[], None] = lambda: None
        #: Set when the relay has a connection; earlier bytes are dropped.
        self._is_connected = asyncio.Event()

    def _new_session(self) -> DealerSession:
        return DealerSession(None, self._identity, MAX_FRAME)

    # --- the relay ----------------------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Start the relay, which connects by itself."""
        self._wake = wake
        await self._helper.open("dragoman.sdk.beat_relay", self._endpoint)
        self._helper.start_pulse()
        return self._endpoint

    async def renew(self) -> bool:
        """Have the relay open a new connection; return False if it is dead or stuck."""
        if not self._helper.is_alive:
            return False
        self._arrived.clear()
        self._pending.clear()
        self._messages.clear()
        self._session = self._new_session()
        self.refusal, self._beat = "", None
        self._is_connected.clear()
        self._helper.write(pack(RENEW))
        try:
            async with asyncio.timeout(GRACE):
                await self._is_connected.wait()
        except TimeoutError:
            # No broker is there; the relay goes on trying, and so does the worker.
            return self._helper.is_alive
        return True

    @property
    def pid(self) -> int:
        """The relay's process id."""
        return self._helper.pid

    def keep_beating(self, every: float, messages: "list[list[bytes]]") -> None:
        """Have the relay send these messages every so many seconds."""
        self._beat = (every, messages)
        if self._session.is_open:
            self._set_beat()

    def _set_beat(self) -> None:
        if self._beat is None:
            return
        every, messages = self._beat
        encoded: list[bytes] = []
        for frames in messages:
            self._session.encode(frames, encoded)
        self._write_messages()
        self._helper.write(pack_beat(every, PATIENCE, b"".join(encoded)))

    # --- reading ------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        for letter, content in self._records.feed(data):
            if letter == CONNECTED:
                self._connected(content)
            elif letter == BYTES and self._is_connected.is_set():
                self._receive(content)
        if self._arrived:
            self._wake()

    def _connected(self, number: bytes) -> None:
        self._session = self._new_session()
        self._messages.clear()
        self._is_connected.set()
        self._helper.write(pack(GREETING, number + self._session.greeting()))

    def _receive(self, data: bytes) -> None:
        was_open = self._session.is_open
        try:
            messages, answer = self._session.receive(data)
        except ConnectionRejected as rejected:
            self.refusal = refusal_of(rejected.reason, has_keys=False) or self.refusal
            self._is_connected.clear()
            self._helper.write(pack(RENEW))
            self._wake()
            return
        if answer:
            self._helper.write(pack(BYTES, answer))
        if self._session.is_open and not was_open:
            self._opened()
        self._arrived.extend([(b"", message) for message in messages])

    def _opened(self) -> None:
        self.refusal = ""
        while self._pending:
            self._session.encode(self._pending.popleft(), self._messages)
        self._write_messages()
        self._set_beat()

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Return up to `limit` received messages."""
        return pop_messages(self._arrived, limit, self._wake)

    # --- writing ------------------------------------------------------------------------------

    def send(self, address: Address, frames: Frames) -> Sent:
        """Queue a message; it is written at the end of this turn of the loop."""
        if not self._session.is_open:
            if len(self._pending) >= SEND_HWM:
                return Sent.FULL
            self._pending.append(frames)
        elif self._helper.is_full:
            return Sent.FULL
        else:
            self._session.encode(frames, self._messages)
        return Sent.YES

    def flush(self) -> None:
        """Write what was sent, once for all calls in this turn of the loop."""
        if self._messages and not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write_messages)

    def _write_messages(self) -> None:
        self._is_writing = False
        if self._messages:
            messages, self._messages = self._messages, []
            self._helper.write(pack(BYTES, b"".join(messages)))

    async def close(self) -> None:
        """Let the relay send what it has, then end it."""
        self._write_messages()
        await self._helper.close()
