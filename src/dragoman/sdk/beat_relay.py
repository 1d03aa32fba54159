"""The relay of a worker: a small process that owns the worker's socket and sends its heartbeats.

A task may hold the interpreter lock for minutes, for example in a long loop in C. No thread of that
process can send heartbeats then, and the broker would declare a healthy worker lost. So the socket
lives in this process. It passes bytes both ways without reading them, which costs a read and a
write for each turn of the worker's loop, and sends the heartbeats between two writes of the worker.
The worker speaks ZMTP itself (`relayed_dealer`), so every write of it is whole messages.

The relay ends with its worker: when the worker dies, the pipe closes. If the worker's process
writes nothing for `patience` seconds, the relay stops its heartbeats, so a frozen worker is
declared lost. A lost connection is restored here, at the broker's next address if it has several;
the worker then repeats the handshake.

A record on the pipe is one letter, the length of its content, and the content.
"""

import contextlib
import os
import select
import socket
import struct
import sys
import time
from typing import Final

from dragoman.transports.addresses import Addresses, split_endpoint

_HEAD: Final = struct.Struct(">cI")
_BEAT: Final = struct.Struct(">dd")
#: Letters. BYTES: of the connection, both ways. BEAT: interval, patience, bytes of the heartbeat.
#: PULSE: the worker's process is alive. RENEW: open a new connection. CONNECTED: a new connection
#: and its number; what follows belongs to it. GREETING: that number and the first bytes; what the
#: worker wrote before belonged to an earlier connection.
BYTES, BEAT, PULSE, RENEW, CONNECTED, GREETING = b"D", b"B", b"P", b"N", b"C", b"G"
NUMBER: Final = struct.Struct(">I")
#: Seconds between two attempts to connect, and between two connections of one identity: a broker
#: that refuses a second connection must see the first one close before the second one opens.
RECONNECT_EVERY: Final = 0.25
#: Seconds that the only address of a broker has to accept a connection.
_CONNECT_WITHIN: Final = 5.0
#: Bytes that may wait in one direction before the other end is no longer read.
_BOUND: Final = 16 * 1024 * 1024
#: Bytes read at once. glibc maps and unmaps memory for each read of 128 KiB or more, which costs
#: 13 us, in a process that has not freed so large a block before.
_READ: Final = 1 << 16


def pack(letter: bytes, content: bytes = b"") -> bytes:
    """Encode one record."""
    return _HEAD.pack(letter, len(content)) + content


def pack_beat(every: float, patience: float, content: bytes) -> bytes:
    """Encode a BEAT record."""
    return pack(BEAT, _BEAT.pack(every, patience) + content)


class Records:
    """Splits the bytes of a pipe into records."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> "list[tuple[bytes, bytes]]":
        """Add bytes; return the complete records."""
        self._data += data
        found, at, data_ = [], 0, self._data
        while len(data_) - at >= _HEAD.size:
            letter, size = _HEAD.unpack_from(data_, at)
            end = at + _HEAD.size + size
            if end > len(data_):
                break
            found.append((letter, bytes(data_[at + _HEAD.size : end])))
            at = end
        del data_[:at]
        return found


class BeatRelay:
    """One connection at a time, a pipe in each direction, one heartbeat."""

    def __init__(self, endpoint: str, incoming: int, outgoing: int) -> None:
        self._addresses = Addresses(endpoint)
        self._in, self._out = incoming, outgoing
        # The worker may not read for minutes; heartbeats must not wait for it.
        os.set_blocking(outgoing, False)
        self._socket: socket.socket | None = None
        self._number = 0
        self._is_greeted = False
        self._connect_at = 0.0
        self._to_broker = bytearray()
        self._to_worker = bytearray()
        self._records = Records()
        self._beat = b""
        self._every = self._patience = 0.0
        self._due = self._pulsed_at = time.monotonic()

    def run(self) -> None:
        """Pass bytes both ways until the worker closes its pipe."""
        try:
            while True:
                self._connect_if_due()
                ready, _, _ = select.select(*self._watched(), [], self._wait())
                if self._in in ready and not self._from_worker():
                    break
                if self._socket is not None and self._socket in ready:
                    self._from_broker()
                if self._to_worker:
                    self._write_to_worker()
                self._beat_if_due()
                if self._to_broker:
                    self._write_to_broker()
        except (BrokenPipeError, KeyboardInterrupt):
            pass
        finally:
            self._finish()

    def _watched(self) -> "tuple[list[int | socket.socket], list[int | socket.socket]]":
        """Return what to wait for: to be readable, and to be writable."""
        reading: list[int | socket.socket] = [self._in] if len(self._to_broker) <= _BOUND else []
        writing: list[int | socket.socket] = [self._out] if self._to_worker else []
        if self._socket is not None:
            if len(self._to_worker) <= _BOUND:
                reading.append(self._socket)
            if self._to_broker:
                writing.append(self._socket)
        return reading, writing

    def _wait(self) -> float:
        now, waits = time.monotonic(), [1.0]
        if self._beat:
            waits.append(self._due - now)
        if self._socket is None:
            waits.append(self._connect_at - now)
        return max(0.0, min(waits))

    # --- the connection -----------------------------------------------------------------------

    def _connect_if_due(self) -> None:
        if self._socket is not None or time.monotonic() < self._connect_at:
            return
        self._connect_at = time.monotonic() + RECONNECT_EVERY
        within = self._addresses.patience or _CONNECT_WITHIN
        try:
            made = socket.create_connection(split_endpoint(self._addresses.current), within)
        except OSError:
            self._addresses.move_on()
            return
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket, self._is_greeted = made, False
        self._number += 1
        self._to_worker += pack(CONNECTED, NUMBER.pack(self._number))

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._addresses.move_on()
        self._socket, self._is_greeted = None, False
        # No heartbeat before the worker has registered on the next connection.
        self._beat = b""
        self._to_broker.clear()
        self._connect_at = time.monotonic() + RECONNECT_EVERY

    def _from_broker(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._addresses.answered()
            self._to_worker += pack(BYTES, data)
        else:
            self._disconnect()

    def _write_to_broker(self) -> None:
        if self._socket is None:
            return
        try:
            del self._to_broker[: self._socket.send(self._to_broker)]
        except BlockingIOError:
            return
        except OSError:
            self._disconnect()

    # --- the worker ---------------------------------------------------------------------------

    def _from_worker(self) -> bool:
        data = os.read(self._in, _READ)
        if not data:
            return False
        self._pulsed_at = time.monotonic()
        for letter, content in self._records.feed(data):
            if letter == RENEW:
                self._disconnect()
            elif letter == GREETING:
                self._greet(content)
            elif letter == BYTES and self._is_greeted:
                self._to_broker += content
            elif letter == BEAT and self._is_greeted:
                self._every, self._patience = _BEAT.unpack_from(content)
                self._beat = content[_BEAT.size :]
                self._due = time.monotonic() + self._every
        return True

    def _greet(self, content: bytes) -> None:
        if self._socket is not None and NUMBER.unpack_from(content)[0] == self._number:
            self._is_greeted = True
            self._to_broker += content[NUMBER.size :]

    def _write_to_worker(self) -> None:
        try:
            while self._to_worker:
                del self._to_worker[: os.write(self._out, self._to_worker[:_READ])]
        except BlockingIOError:
            pass

    def _beat_if_due(self) -> None:
        now = time.monotonic()
        if not self._beat or now < self._due:
            return
        self._due = now + self._every
        if now - self._pulsed_at <= self._patience:
            self._to_broker += self._beat

    def _finish(self) -> None:
        """Write the last messages of the worker, if the broker reads them."""
        if self._socket is None:
            return
        self._socket.settimeout(0.5)
        with contextlib.suppress(OSError):
            self._socket.sendall(self._to_broker)
        self._socket.close()


def main() -> None:
    """Run a relay for the worker that started this process."""
    # Ctrl-C goes to the whole process group; the worker decides when its connection ends.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    BeatRelay(sys.argv[1], sys.stdin.fileno(), sys.stdout.fileno()).run()


if __name__ == "__main__":
    main()
