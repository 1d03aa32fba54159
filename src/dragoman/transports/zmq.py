"""A peer's end of ZeroMQ: libzmq's DEALER, driven by its file descriptor. Clients use `dealer`.

A ZeroMQ descriptor is edge-triggered: it signals a change once, then not again until the socket is
drained. So `drain` reads until the socket is empty, or up to its limit and then calls `wake`; and
`flush` checks the events again after sending. An asyncio wrapper that waits for each message costs
more than twice as much. The broker's end is in `zmtp`.
"""

import asyncio
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

import zmq

from dragoman.transports.base import Address, Frames, Sent
from dragoman.transports.zmq_peers import (
    LINGER_MS,
    MAX_FRAME,
    NO_CURVE,
    NO_KEYS,
    RECV_HWM,
    SEND_HWM,
    UNKNOWN_KEY,
    CurveKeys,
)

__all__ = [
    "HANDSHAKE_EVENTS",
    "MAX_FRAME",
    "RETRY_EVENT",
    "CurveKeys",
    "HandshakeMonitor",
    "ZmqDealer",
    "event_number",
]


_EVENT: Final = Struct("=Hi")
_AUTH_FAILED: Final = int(zmq.Event.HANDSHAKE_FAILED_AUTH)
_NO_DETAIL: Final = int(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL)
_MISMATCH: Final = int(zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
_SUCCEEDED: Final = int(zmq.Event.HANDSHAKE_SUCCEEDED)
#: The monitor events about handshakes.
HANDSHAKE_EVENTS: Final = _AUTH_FAILED | _NO_DETAIL | _MISMATCH | _SUCCEEDED
#: The monitor event that follows a lost connection and a failed attempt.
RETRY_EVENT: Final = int(zmq.Event.CONNECT_RETRIED)
_LAST: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)


def _not_open(frame: bytes, flags: int) -> object:
    raise AssertionError("the transport is not open")


def event_number(event: bytes) -> int:
    """Return the kind of an event of a socket's monitor."""
    number: int = _EVENT.unpack_from(event)[0]
    return number


class HandshakeMonitor:
    """Translates the outcome of a peer's handshakes into text.

    If a connection ends during a handshake, that alone is no refusal: a broker that dies or a
    broken network looks the same, and ZeroMQ retries. A peer with keys takes it for a refusal if no
    handshake has ever succeeded, because a wrong broker key has no other symptom.
    """

    def __init__(self, has_keys: bool) -> None:
        self._has_keys = has_keys
        self._has_succeeded = False
        #: Why the broker refuses this peer; empty if it is not known to.
        self.refusal = ""

    def read(self, event: bytes) -> str:
        """Read an event of the socket's monitor; return the current refusal."""
        number = event_number(event)
        if number == _SUCCEEDED:
            self._has_succeeded = True
            self.refusal = ""
        elif number == _AUTH_FAILED:
            self.refusal = UNKNOWN_KEY
        elif number == _MISMATCH or (self._has_keys and not self._has_succeeded):
            self.refusal = NO_CURVE if self._has_keys else NO_KEYS
        return self.refusal


class ZmqDealer:
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
        self._identity = identity
        self._keys = keys
        self._max_frame = max_frame
        self._socket: zmq.Socket[bytes] | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._wake: Callable[[], None] = lambda: None
        #: Sends one frame, without the checks and flag objects that `send_multipart` makes of each:
        #: a message of eight frames costs 3 us this way and 18 us that way.
        self._send: Callable[[bytes, int], object] = _not_open
        self._handshakes = HandshakeMonitor(keys is not None)
        #: Why the broker refuses this peer, if that is known.
        self.refusal = ""
        self.refused = asyncio.Event()

    @property
    def socket(self) -> "zmq.Socket[bytes]":
        """The open socket."""
        assert self._socket is not None, "the transport is not open"
        return self._socket

    async def open(self, wake: Callable[[], None]) -> str:
        """Connect; ZeroMQ retries in the background."""
        self._wake = wake
        self._context = zmq.Context()
        self._socket = socket = self._context.socket(zmq.DEALER)
        self._send = super(zmq.Socket, socket).send
        self._prepare(socket)
        self._monitor = socket.get_monitor_socket(HANDSHAKE_EVENTS)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._monitor.fileno(), self._read_monitor)
        # The descriptor signals nothing until the socket has been read empty once.
        self._read_monitor()
        socket.connect(self._endpoint)
        loop.add_reader(socket.fileno(), wake)
        wake()
        return self._endpoint

    def _prepare(self, socket: "zmq.Socket[bytes]") -> None:
        """Set the socket options before the socket connects."""
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.SNDHWM, SEND_HWM)
        socket.setsockopt(zmq.RCVHWM, RECV_HWM)
        socket.setsockopt(zmq.MAXMSGSIZE, self._max_frame)
        # If it were on, an IPv4 endpoint would be reported in its IPv6 form.
        socket.setsockopt(zmq.IPV6, int("[" in self._endpoint))
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        if self._identity:
            socket.setsockopt(zmq.IDENTITY, self._identity)
        if self._keys is not None:
            self._keys.prepare(socket)

    def _read_monitor(self) -> None:
        """Read the monitor's events about handshakes."""
        while self._monitor is not None:
            try:
                event = self._monitor.recv_multipart(_LAST)[0]
            except zmq.Again:
                return
            self.refusal = self._handshakes.read(event)
            if self.refusal:
                self.refused.set()

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        """Yield what has arrived: (empty address, frames)."""
        receive = self.socket.recv
        try:
            for _ in range(limit):
                # A frame knows whether more follow; asking the socket each time costs half as
                # much again as the whole message (14 us for eight frames, 9 us this way).
                frame = receive(_LAST, copy=False)
                frames = [frame.bytes]
                while frame.more:
                    frame = receive(_LAST, copy=False)
                    frames.append(frame.bytes)
                yield b"", frames
        except zmq.Again:
            return
        self._wake()

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send to the broker."""
        send = self._send
        try:
            for frame in frames[:-1]:
                send(frame, _MORE)
            send(frames[-1], _LAST)
        except zmq.Again:
            return Sent.FULL
        return Sent.YES

    def flush(self) -> None:
        """Check for messages that arrived during `send`: the descriptor does not signal them."""
        if self.socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator, arg-type]
            self._wake()

    async def close(self) -> None:
        """Close the socket; accepted messages have a short time to be written."""
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            loop.remove_reader(monitor.fileno())
            self._socket.disable_monitor()
            monitor.close()
        loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        context, self._context = self._context, None
        if context is not None:
            await asyncio.to_thread(context.term)
