"""A worker's connection to its fork server: starts it, asks for processes, hears of their ends."""

import asyncio
import json
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from dragoman.sdk.fork_server import ask_for_process

_MODULE: Final = "dragoman.sdk.fork_server"
#: Seconds that the server has to end.
_END_WAIT: Final = 3.0

#: Called with the process id of a new process.
Started = Callable[[int], None]


class ForkClient:
    """One fork server. `ended` gets the pid and wait status of each process that has ended.

    `lost` is called when the server itself has ended: the kernel then kills its processes.
    """

    def __init__(self, ended: Callable[[int, int], None], lost: Callable[[], None]) -> None:
        self._ended = ended
        self._lost = lost
        self._waiting: deque[Started] = deque()
        self._rest = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server runs."""
        return self._socket is not None

    async def open(self) -> None:
        """Start the server."""
        self._process, sock = await asyncio.to_thread(_start)
        sock.setblocking(False)
        asyncio.get_running_loop().add_reader(sock, self._read)
        self._socket = sock

    def fork(self, started: Started) -> socket.socket:
        """Start a process; return the worker's end of its pipe, which can be used at once."""
        assert self._socket is not None, "the fork server is not open"
        ours, theirs = socket.socketpair()
        with theirs:
            ask_for_process(self._socket, theirs)
        self._waiting.append(started)
        return ours

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop_socket()
            self._lost()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._note(*json.loads(line))

    def _note(self, pid: int, status: int | None) -> None:
        if status is None:
            self._waiting.popleft()(pid)
        else:
            self._ended(pid, status)

    def _drop_socket(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._waiting.clear()

    async def close(self) -> None:
        """End the server."""
        self._drop_socket()
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(_end, process)


def _start() -> tuple["subprocess.Popen[bytes]", socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", _MODULE, str(theirs.fileno()), json.dumps(sys.path)]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    return process, ours


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_END_WAIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
