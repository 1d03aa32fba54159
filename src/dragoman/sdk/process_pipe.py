"""Messages between a worker and its task processes: a length, then a pickled tuple.

Both ends belong to one user and one program, and the socket pair has no name: a task that runs in
the child could as well run in the worker. So pickle is safe here, and values arrive exactly as
they do in a thread. Peers of the network never reach this pipe.
"""

import asyncio
import pickle  # nosec B403: both ends are this program
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Final

_LENGTH: Final = struct.Struct(">Q")
#: Bytes read at once. glibc maps and unmaps memory for each read of 128 KiB or more, which costs
#: 13 us, in a process that has not freed so large a block before.
_READ: Final = 1 << 16
#: Maximum bytes of one message: a task cannot fill the worker's memory with its result.
MAX_MESSAGE: Final = 256 * 1024 * 1024


class MessageTooLarge(Exception):
    """A message exceeds `MAX_MESSAGE`. The text names size and limit."""


def encode(message: tuple[Any, ...]) -> bytes:
    """Encode a message. Raises `MessageTooLarge`, or what pickle raises."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    if len(data) > MAX_MESSAGE:
        raise MessageTooLarge(f"it has {len(data)} bytes; the limit is {MAX_MESSAGE}")
    return _LENGTH.pack(len(data)) + data


class MessageSplitter:
    """Splits the bytes of a pipe into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Add some bytes; return the messages that are complete."""
        self._data += data
        found = []
        while (body := self._next()) is not None:
            found.append(pickle.loads(body))  # nosec B301: see the module's first lines
        return found

    def _next(self) -> bytes | None:
        if len(self._data) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._data)
        end = _LENGTH.size + size
        if len(self._data) < end:
            return None
        body = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return body


class BlockingPipe:
    """A task process's end: threads send, one thread receives."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._splitter = MessageSplitter()

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a message. Raises as `encode` does; OSError if the worker is gone."""
        data = encode(message)
        with self._lock:
            self._socket.sendall(data)

    def receive(self) -> list[Any]:
        """Wait for messages; EOFError if the worker is gone."""
        while True:
            try:
                data = self._socket.recv(_READ)
            except ConnectionError:
                data = b""
            if not data:
                raise EOFError
            if found := self._splitter.feed(data):
                return found


class LoopPipe:
    """The worker's end, on its event loop. It never blocks: what does not fit waits."""

    def __init__(
        self, sock: socket.socket, received: Callable[[Any], None], closed: Callable[[], None]
    ) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._received = received
        self._closed = closed
        self._out = bytearray()
        self._splitter = MessageSplitter()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a message. Raises as `encode` does. If the child is gone, the message is lost."""
        self._out += encode(message)
        self._push()

    def _push(self) -> None:
        if self._socket.fileno() < 0:
            return
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
            self._loop.remove_writer(self._socket)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._push)
        except OSError:
            # The child is gone; the reader finds that out.
            self._out.clear()
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        """Read once; tell the owner when the child has closed its end."""
        if not self._read_once():
            self.close()
            self._closed()

    def read_rest(self) -> None:
        """Read what the child wrote before it ended."""
        while self._socket.fileno() >= 0 and self._read_once(False):
            pass

    def _read_once(self, if_nothing: bool = True) -> bool:
        """Read what is there; False at the end. `if_nothing` is the answer if nothing is there."""
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return if_nothing
        except OSError:
            data = b""
        for message in self._splitter.feed(data):
            self._received(message)
        return bool(data)

    def close(self) -> None:
        """Close the socket."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
