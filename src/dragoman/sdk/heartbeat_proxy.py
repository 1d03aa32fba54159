"""The courier: a small process that keeps a worker's connection and beats for it.

A task may hold the interpreter lock for minutes (a long loop in C, say). Threads of the same
process cannot beat then, and a healthy worker would be taken for lost. So the socket lives in a
process of its own: it passes frames both ways through a pipe and sends the worker's beat by
itself. It ends with its worker: the pipe closes when the worker dies, however it dies. And it
stops beating when the worker's process has shown no life for `patience` seconds, so that a frozen
worker is not kept alive for ever. When the worker wants to begin anew, the courier stays and
takes another socket: a worker whose broker is gone for days must not cost a process every time.

Messages on the pipe: one letter, the number of frames, then each frame with its length.
"""

import os
import select
import struct
import sys
import time
from typing import Final

import zmq

from dragoman.transports.zmq import HANDSHAKE_EVENTS, CurveKeys, HandshakeMonitor

_HEAD: Final = struct.Struct(">cI")
_LENGTH: Final = struct.Struct(">I")
_BEAT: Final = struct.Struct(">dd")
#: Bytes that wait for a worker that does not read, before the rest is left in the socket.
MOST: Final = 16 * 1024 * 1024
_PIECE: Final = 1 << 16
#: Seconds between two sockets of one name. A broker that lets nobody take over a name which is in
#: use has to see the end of the old one before it hears of the new one.
APART: Final = 0.25
#: Letters: a message to send or received, the beat to send by itself, a sign of life, the keys
#: to connect with (public, secret, the broker's; or none), that it connects, and why the broker
#: does not answer.
MESSAGE, SET_BEAT, PULSE, KEYS, CONNECTING, REFUSAL = b"M", b"B", b"P", b"K", b"C", b"R"


def pack(letter: bytes, frames: "list[bytes] | tuple[bytes, ...]") -> bytes:
    """Write one message for the pipe."""
    out = [_HEAD.pack(letter, len(frames))]
    for frame in frames:
        out += [_LENGTH.pack(len(frame)), frame]
    return b"".join(out)


def pack_beat(every: float, patience: float, messages: "list[list[bytes]]") -> bytes:
    """Write the order to beat: how often, for how long without a pulse, and with which message."""
    return pack(SET_BEAT, [_BEAT.pack(every, patience), *[pack(MESSAGE, m) for m in messages]])


class Unpacker:
    """Cuts what comes through a pipe into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> "list[tuple[bytes, list[bytes]]]":
        """Take in some bytes; return the messages that are complete."""
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
    """One socket at a time, one pipe, one beat."""

    def __init__(self, endpoint: str, identity: bytes, incoming: int, outgoing: int) -> None:
        self._endpoint, self._identity = endpoint, identity
        self._make_socket()
        self._in, self._out = incoming, outgoing
        # The worker may not read for minutes; the beat must not wait for it.
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
        self._socket.setsockopt(zmq.IPV6, int("[" in self._endpoint))
        if self._identity:
            self._socket.setsockopt(zmq.IDENTITY, self._identity)
        self._is_connected = False
        self._handshakes = HandshakeMonitor(has_keys=False)
        self._refusal = ""
        self._monitor = self._socket.get_monitor_socket(HANDSHAKE_EVENTS)

    def _close_socket(self) -> None:
        """Close, and wait until it is gone: two of one name would shut each other out."""
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()

    def run(self) -> None:
        """Pass frames both ways until the worker goes."""
        self._look()
        try:
            while True:
                writing = [self._out] if self._unwritten else []
                watched = [self._in, self._monitor.fileno()]
                if len(self._unwritten) <= MOST:
                    watched.append(self._socket.fileno())
                ready, _, _ = select.select(watched, writing, [], self._wait())
                if self._in in ready and not self._from_worker():
                    break
                if self._monitor.fileno() in ready:
                    self._look()
                self._to_worker()
                self._beat_if_due()
        except (BrokenPipeError, KeyboardInterrupt):
            pass
        finally:
            self._close_socket()

    def _wait(self) -> float:
        is_full = len(self._unwritten) > MOST
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
        """Connect, as the first thing that the worker asks for; the next time on a new socket."""
        if self._is_connected:
            self._close_socket()
            time.sleep(APART)
            self._make_socket()
            # Nothing is said on it before the worker has joined.
            self._beat = []
        self._is_connected = True
        self._unwritten += pack(CONNECTING, [])
        self._handshakes = HandshakeMonitor(bool(keys))
        if keys:
            CurveKeys(*keys).prepare(self._socket)
        self._socket.connect(self._endpoint)
        self._look()

    def _look(self) -> None:
        """Tell the worker what became of handshakes."""
        try:
            while True:
                words = self._handshakes.read(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
                if words != self._refusal:
                    self._refusal = words
                    self._unwritten += pack(REFUSAL, [words.encode()])
        except zmq.Again:
            return

    def _set_beat(self, frames: "list[bytes]") -> None:
        self._every, self._patience = _BEAT.unpack(frames[0])
        self._beat = [Unpacker().feed(frame)[0][1] for frame in frames[1:]]
        self._due = time.monotonic() + self._every

    def _to_worker(self) -> None:
        """Pass on what came for the worker; what its pipe does not take waits here."""
        try:
            while len(self._unwritten) <= MOST:
                self._unwritten += pack(MESSAGE, self._socket.recv_multipart(zmq.NOBLOCK))
        except zmq.Again:
            pass
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self._out, self._unwritten[:_PIECE])]
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
    """Run a courier for the worker that started this process."""
    # Ctrl-C goes to the whole group; the worker decides when its connection ends.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    endpoint, identity = sys.argv[1], bytes.fromhex(sys.argv[2])
    HeartbeatProxy(endpoint, identity, sys.stdin.fileno(), sys.stdout.fileno()).run()


if __name__ == "__main__":
    main()
