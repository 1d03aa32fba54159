"""The pipe to a worker's helper process, which holds its socket and sends its heartbeats."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Final

#: The helper stops its heartbeats after so many seconds without a pulse of the worker.
PATIENCE: Final = 300.0
#: Seconds that a helper has to open a new connection, or to end.
GRACE: Final = 3.0
_PULSE_EVERY: Final = 1.0
_PIPE_BOUND: Final = 64 * 1024 * 1024


class ChildProcess:
    """A child process that is fed through its standard input, without blocking the loop."""

    def __init__(self, received: Callable[[bytes], None], pulse: bytes) -> None:
        self._received = received
        #: Sent every second, so that the helper notices a worker that hangs.
        self._pulse = pulse
        self._process: subprocess.Popen[bytes] | None = None
        self._out = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, module: str, *arguments: str) -> None:
        """Start the child."""
        command = [sys.executable, "-m", module, *arguments]
        self._process = process = await asyncio.to_thread(
            subprocess.Popen, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(process.stdout.fileno(), self._read)

    def start_pulse(self) -> None:
        """Send the pulse now and every second."""
        self.write(self._pulse)
        self._timer = asyncio.get_running_loop().call_later(_PULSE_EVERY, self.start_pulse)

    @property
    def is_alive(self) -> bool:
        """Whether the child runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_full(self) -> bool:
        """Whether too much waits for the child to read it."""
        return len(self._out) > _PIPE_BOUND

    @property
    def pid(self) -> int:
        """The child's process id."""
        assert self._process is not None, "the transport is not open"
        return self._process.pid

    def _read(self) -> None:
        process = self._process
        if process is None or process.stdout is None:
            return
        data = os.read(process.stdout.fileno(), 1 << 20)
        if not data:
            asyncio.get_running_loop().remove_reader(process.stdout.fileno())
            return
        self._received(data)

    def write(self, data: bytes) -> None:
        """Write bytes, or keep them until the child reads on."""
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

    async def close(self) -> None:
        """Let the child read what waits for it, then end it."""
        process, self._process = self._process, None
        if self._timer is not None:
            self._timer.cancel()
        if process is None or process.stdin is None or process.stdout is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(process.stdout.fileno())
        loop.remove_writer(process.stdin.fileno())
        await asyncio.to_thread(self._end, process)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Write the rest and wait. A child that does not read cannot hold the worker up."""
        # `with` closes the pipes: after a time-out `communicate` leaves the input open.
        with process:
            try:
                process.communicate(bytes(self._out), timeout=GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
