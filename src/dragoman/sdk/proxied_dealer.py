"""The worker's end of a heartbeat proxy: a transport whose socket is in another process."""

import asyncio
from collections import deque
from collections.abc import Callable

from dragoman.sdk.child_process import GRACE, PATIENCE, ChildProcess
from dragoman.sdk.heartbeat_proxy import (
    CONNECTING,
    KEYS,
    MESSAGE,
    PULSE,
    REFUSAL,
    Unpacker,
    pack,
    pack_beat,
)
from dragoman.transports.base import Address, Frames, Sent, pop_messages
from dragoman.transports.zmq import CurveKeys


class ProxiedDealer:
    """A DEALER in a process of its own, which sends heartbeats even if this process is busy."""

    def __init__(self, endpoint: str, identity: bytes, keys: CurveKeys | None = None) -> None:
        self._endpoint = endpoint
        self._identity = identity
        self._keys = keys
        #: Why the broker refused the handshake; empty if it did not.
        self.refusal = ""
        self._helper = ChildProcess(self._read, pack(PULSE, []))
        self._unpacker = Unpacker()
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._wake: Callable[[], None] = lambda: None
        #: Set when the proxy has opened the requested socket; earlier messages are dropped.
        self._is_connecting = asyncio.Event()

    async def open(self, wake: Callable[[], None]) -> str:
        """Start the proxy process and have it connect."""
        self._wake = wake
        module = "dragoman.sdk.heartbeat_proxy"
        await self._helper.open(module, self._endpoint, self._identity.hex())
        self._connect()
        self._helper.start_pulse()
        return self._endpoint

    def _connect(self) -> None:
        """Have the proxy connect; if it has a socket already, on a new one."""
        self._is_connecting.clear()
        # Keys go through the pipe: other users can read arguments and environment variables.
        keys = self._keys
        self._helper.write(pack(KEYS, [keys.public, keys.secret, keys.server] if keys else []))

    async def renew(self) -> bool:
        """Open a new socket in the same proxy; return False if the proxy is dead or stuck."""
        if not self._helper.is_alive:
            return False
        self._arrived.clear()
        self.refusal = ""
        self._connect()
        try:
            async with asyncio.timeout(GRACE):
                await self._is_connecting.wait()
        except TimeoutError:
            return False
        return True

    @property
    def pid(self) -> int:
        """The proxy's process id."""
        return self._helper.pid

    def keep_beating(self, every: float, messages: "list[list[bytes]]") -> None:
        """Have the proxy send these messages every so many seconds."""
        self._helper.write(pack_beat(every, PATIENCE, messages))

    def _read(self, data: bytes) -> None:
        is_news = [self._handle(*message) for message in self._unpacker.feed(data)]
        if any(is_news):
            self._wake()

    def _handle(self, letter: bytes, frames: list[bytes]) -> bool:
        """Handle a message of the proxy; return whether to wake the connection."""
        if letter == CONNECTING:
            self._is_connecting.set()
            return False
        if not self._is_connecting.is_set():
            # It came from the old socket.
            return False
        if letter == MESSAGE:
            self._arrived.append((b"", frames))
        elif letter == REFUSAL:
            self.refusal = frames[0].decode()
        return True

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Return up to `limit` received messages."""
        return pop_messages(self._arrived, limit, self._wake)

    def send(self, address: Address, frames: Frames) -> Sent:
        """Hand a message to the proxy."""
        if self._helper.is_full:
            return Sent.FULL
        self._helper.write(pack(MESSAGE, list(frames)))
        return Sent.YES

    def flush(self) -> None:
        """Do nothing: `send` writes at once."""

    async def close(self) -> None:
        """Let the proxy send what it has, then end it."""
        await self._helper.close()
