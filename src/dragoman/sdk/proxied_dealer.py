"""The worker's end of a heartbeat proxy: a transport whose socket is in another process."""

import asyncio
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

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

#: The proxy stops its heartbeats after so many seconds without a PULSE of the worker.
PATIENCE: Final = 300.0
_PULSE_EVERY: Final = 1.0
_PIPE_BOUND: Final = 64 * 1024 * 1024
#: Seconds that a proxy has to open a new socket, or to end.
_GRACE: Final = 3.0


class ProxiedDealer:
    """A DEALER in a process of its own, which sends heartbeats even if this process is busy."""

    def __init__(self, endpoint: str, identity: bytes, keys: CurveKeys | None = None) -> None:
        self._endpoint = endpoint
        self._identity = identity
        self._keys = keys
        #: Why the broker refused the handshake; empty if it did not.
        self.refusal = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._unpacker = Unpacker()
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._out = bytearray()
        self._wake: Callable[[], None] = lambda: None
        #: Set when the proxy has opened the requested socket; earlier messages are dropped.
        self._is_connecting = asyncio.Event()
        self._pulse: asyncio.TimerHandle | None = None

    async def open(self, wake: Callable[[], None]) -> str:
        """Start the proxy process and have it connect."""
        self._wake = wake
        command = [sys.executable, "-m", "dragoman.sdk.heartbeat_proxy", self._endpoint]
        self._process = process = await asyncio.to_thread(
            subprocess.Popen,
            [*command, self._identity.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(process.stdout.fileno(), self._read)
        self._connect()
        self._send_pulse()
        return self._endpoint

    def _connect(self) -> None:
        """Have the proxy connect; if it has a socket already, on a new one."""
        self._is_connecting.clear()
        # Keys go through the pipe: other users can read arguments and environment variables.
        keys = self._keys
        self._write(pack(KEYS, [keys.public, keys.secret, keys.server] if keys else []))

    async def renew(self) -> bool:
        """Open a new socket in the same proxy; return False if the proxy is dead or stuck."""
        if self._process is None or self._process.poll() is not None:
            return False
        self._arrived.clear()
        self.refusal = ""
        self._connect()
        try:
            async with asyncio.timeout(_GRACE):
                await self._is_connecting.wait()
        except TimeoutError:
            return False
        return True

    @property
    def pid(self) -> int:
        """The proxy's process id."""
        assert self._process is not None, "the transport is not open"
        return self._process.pid

    def keep_beating(self, every: float, messages: "list[list[bytes]]") -> None:
        """Have the proxy send these messages every so many seconds."""
        self._write(pack_beat(every, PATIENCE, messages))

    def _send_pulse(self) -> None:
        self._write(pack(PULSE, []))
        self._pulse = asyncio.get_running_loop().call_later(_PULSE_EVERY, self._send_pulse)

    def _read(self) -> None:
        process = self._process
        if process is None or process.stdout is None:
            return
        data = os.read(process.stdout.fileno(), 1 << 20)
        if not data:
            asyncio.get_running_loop().remove_reader(process.stdout.fileno())
            return
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
        if len(self._out) > _PIPE_BOUND:
            return Sent.FULL
        self._write(pack(MESSAGE, list(frames)))
        return Sent.YES

    def _write(self, data: bytes) -> None:
        self._out += data
        self._push()

    def _push(self) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        loop, descriptor = asyncio.get_running_loop(), process.stdin.fileno()
        try:
            while self._out:
                del self._out[: os.write(descriptor, self._out)]
            loop.remove_writer(descriptor)
        except BlockingIOError:
            loop.add_writer(descriptor, self._push)
        except BrokenPipeError:
            loop.remove_writer(descriptor)
            self._out.clear()

    def flush(self) -> None:
        """Do nothing: `send` writes at once."""

    async def close(self) -> None:
        """Let the proxy send what it has, then end it."""
        process, self._process = self._process, None
        if self._pulse is not None:
            self._pulse.cancel()
        if process is None or process.stdin is None or process.stdout is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(process.stdout.fileno())
        loop.remove_writer(process.stdin.fileno())
        await asyncio.to_thread(self._end, process)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), True)
        try:
            if self._out:
                os.write(process.stdin.fileno(), self._out)
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            process.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
