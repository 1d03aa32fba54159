"""The heartbeat proxy: a small process that owns a worker's socket and sends its heartbeats.

A task may hold the interpreter lock for minutes, for example in a long loop in C. No thread of
that process can send heartbeats then, and the broker would declare a healthy worker lost. So the
socket lives in this process. It passes frames both ways through pipes and sends the heartbeats.

The proxy ends with its worker: when the worker dies, the pipe closes. If the worker's process
writes nothing for `patience` seconds, the proxy stops its heartbeats, so a frozen worker is
declared lost. When the worker reconnects, the proxy opens a new socket and stays: a worker whose
broker is away for days must not start a process at every attempt. If the broker has several
addresses, each attempt uses the next one.

A message on the pipe is one letter, the number of frames, then each frame with its length.
"""

import os
import select
import struct
import sys
import time
from typing import Final

import zmq

from dragoman.transports.addresses import Addresses
from dragoman.transports.zmq import (
    HANDSHAKE_EVENTS,
    RETRY_EVENT,
    CurveKeys,
    HandshakeMonitor,
    event_number,
)

_HEAD: Final = struct.Struct(">cI")
_LENGTH: Final = struct.Struct(">I")
_BEAT: Final = struct.Struct(">dd")
#: Maximum bytes that wait for a worker which does not read; more stays in the socket.
MAX_UNWRITTEN: Final = 16 * 1024 * 1024
_PIPE_WRITE: Final = 1 << 16
#: Seconds between two sockets with one identity. A broker that refuses a second connection of one
#: identity must see the first one close before the second one opens.
RECONNECT_PAUSE: Final = 0.25
#: Letters. MESSAGE: a message to send, or one received. SET_BEAT: the heartbeat to send. PULSE: the
#: worker's process is alive. KEYS: connect with these CURVE keys (public, secret, the broker's), or
#: without. CONNECTING: the new socket connects. REFUSAL: why the broker refused the handshake.
MESSAGE, SET_BEAT, PULSE, KEYS, CONNECTING, REFUSAL = b"M", b"B", b"P", b"K", b"C", b"R"


def pack(letter: bytes, frames: "list[bytes] | tuple[bytes, ...]") -> bytes:
    """Encode one message for the pipe."""
    out = [_HEAD.pack(letter, len(frames))]
    for frame in frames:
        out += [_LENGTH.pack(len(frame)), frame]
    return b"".join(out)


def pack_beat(every: float, patience: float, messages: "list[list[bytes]]") -> bytes:
    """Encode a SET_BEAT message: interval, patience and the heartbeat messages."""
    return pack(SET_BEAT, [_BEAT.pack(every, patience), *[pack(MESSAGE, m) for m in messages]])


class Unpacker:
    """Splits the bytes of a pipe into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> "list[tuple[bytes, list[bytes]]]":
        """Add some bytes; return the messages that are complete."""
        self._data += data
        found = []
        while (one := self._next()) is not None:
            found.append(one)
        return found

    def _next(self) -> "tuple[bytes, list[bytes]] | None":
        data = self._data
        if len(data) < _HEAD.size:
            return None
        letter, count = _HEAD.unpack_from(data)
        at, frames = _HEAD.size, []
        for _ in range(count):
            if len(data) < at + 4:
                return None
            (size,) = _LENGTH.unpack_from(data, at)
            if len(data) < at + 4 + size:
                return None
            frames.append(bytes(data[at + 4 : at + 4 + size]))
            at += 4 + size
        del data[:at]
        return letter, frames


class HeartbeatProxy:
    """One socket at a time, a pipe in each direction, one heartbeat."""

    def __init__(self, endpoint: str, identity: bytes, incoming: int, outgoing: int) -> None:
        self._addresses, self._identity = Addresses(endpoint), identity
        self._make_socket()
        self._in, self._out = incoming, outgoing
        # The worker may not read for minutes; heartbeats must not wait for it.
        os.set_blocking(outgoing, False)
        self._unwritten = bytearray()
        self._unpacker = Unpacker()
        self._beat: list[list[bytes]] = []
        self._every = self._patience = 0.0
        self._due = self._pulsed_at = time.monotonic()

    def _make_socket(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 500)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.IPV6, int("[" in "".join(self._addresses.all)))
        if self._identity:
            self._socket.setsockopt(zmq.IDENTITY, self._identity)
        self._is_connected = False
        self._handshakes = HandshakeMonitor(has_keys=False)
        self._refusal = ""
        self._monitor = self._socket.get_monitor_socket(HANDSHAKE_EVENTS | RETRY_EVENT)

    def _close_socket(self) -> None:
        """Close the socket and wait for its end: the next one has the same identity."""
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()

    def run(self) -> None:
        """Pass frames both ways until the worker closes its pipe."""
        self._report_handshakes()
        try:
            while True:
                writing = [self._out] if self._unwritten else []
                watched = [self._in, self._monitor.fileno()]
                if len(self._unwritten) <= MAX_UNWRITTEN:
                    watched.append(self._socket.fileno())
                ready, _, _ = select.select(watched, writing, [], self._wait())
                if self._in in ready and not self._from_worker():
                    break
                if self._monitor.fileno() in ready:
                    self._report_handshakes()
                self._to_worker()
                self._beat_if_due()
        except (BrokenPipeError, KeyboardInterrupt):
            pass
        finally:
            self._close_socket()

    def _wait(self) -> float:
        is_full = len(self._unwritten) > MAX_UNWRITTEN
        if not is_full and self._socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator, arg-type]
            return 0.0
        return max(0.0, self._due - time.monotonic()) if self._beat else 1.0

    def _from_worker(self) -> bool:
        data = os.read(self._in, 1 << 20)
        if not data:
            return False
        self._pulsed_at = time.monotonic()
        for letter, frames in self._unpacker.feed(data):
            if letter == MESSAGE:
                self._socket.send_multipart(frames)
            elif letter == SET_BEAT:
                self._set_beat(frames)
            elif letter == KEYS:
                self._connect(frames)
        return True

    def _connect(self, keys: "list[bytes]") -> None:
        """Connect; if the socket is in use, open a new one first."""
        if self._is_connected:
            self._close_socket()
            time.sleep(RECONNECT_PAUSE)
            self._make_socket()
            self._addresses.move_on()
            # No heartbeat before the worker has registered on the new socket.
            self._beat = []
        self._is_connected = True
        self._unwritten += pack(CONNECTING, [])
        self._handshakes = HandshakeMonitor(bool(keys))
        if keys:
            CurveKeys(*keys).prepare(self._socket)
        self._connect_socket()
        self._report_handshakes()

    def _connect_socket(self) -> None:
        patience = self._addresses.patience
        if patience is not None:
            self._socket.setsockopt(zmq.CONNECT_TIMEOUT, round(patience * 1000))
            self._socket.setsockopt(zmq.HANDSHAKE_IVL, round(patience * 1000))
        self._socket.connect(self._addresses.current)

    def _move_on(self) -> None:
        """Connect to the next address instead of the same one again."""
        if len(self._addresses.all) > 1:
            self._socket.disconnect(self._addresses.current)
            self._addresses.move_on()
            self._connect_socket()

    def _report_handshakes(self) -> None:
        """Tell the worker whether the broker refused a handshake; leave an address that failed."""
        try:
            while True:
                event = self._monitor.recv_multipart(zmq.NOBLOCK)[0]
                if event_number(event) == RETRY_EVENT:
                    self._move_on()
                else:
                    self._report_refusal(self._handshakes.read(event))
        except zmq.Again:
            return

    def _report_refusal(self, refusal: str) -> None:
        if not refusal:
            self._addresses.answered()
        if refusal != self._refusal:
            self._refusal = refusal
            self._unwritten += pack(REFUSAL, [refusal.encode()])

    def _set_beat(self, frames: "list[bytes]") -> None:
        self._every, self._patience = _BEAT.unpack(frames[0])
        self._beat = [Unpacker().feed(frame)[0][1] for frame in frames[1:]]
        self._due = time.monotonic() + self._every

    def _to_worker(self) -> None:
        """Pass received messages to the worker. If its pipe is full, the rest waits here."""
        try:
            while len(self._unwritten) <= MAX_UNWRITTEN:
                self._unwritten += pack(MESSAGE, self._socket.recv_multipart(zmq.NOBLOCK))
        except zmq.Again:
            pass
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self._out, self._unwritten[:_PIPE_WRITE])]
        except BlockingIOError:
            pass

    def _beat_if_due(self) -> None:
        now = time.monotonic()
        if not self._beat or now < self._due:
            return
        self._due = now + self._every
        if now - self._pulsed_at <= self._patience:
            for frames in self._beat:
                self._socket.send_multipart(frames)


def main() -> None:
    """Run a proxy for the worker that started this process."""
    # Ctrl-C goes to the whole process group; the worker decides when its connection ends.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    endpoint, identity = sys.argv[1], bytes.fromhex(sys.argv[2])
    HeartbeatProxy(endpoint, identity, sys.stdin.fileno(), sys.stdout.fileno()).run()


if __name__ == "__main__":
    main()
