"""ZeroMQ: the broker's ROUTER and a peer's DEALER, driven by their file descriptor.

A ZeroMQ descriptor is edge-triggered: it says once that something changed and then stays silent
until the socket was drained. So both sockets drain until empty (or the stated bound, and then ask
to be called again), and look at the socket's events once more after sending. Waiting for each
message on an asyncio wrapper costs more than twice as much.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import zmq

from dragoman.transports.base import Address, Frames, Sent

#: Messages that may wait for one peer inside ZeroMQ before it counts as full.
SEND_HWM: Final = 10_000
RECV_HWM: Final = 10_000
#: Frames above this size end the connection they came on.
MAX_FRAME: Final = 64 * 1024 * 1024
#: How long messages already accepted may take to leave when the socket closes.
LINGER_MS: Final = 500
_LAST: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)


def _not_open(frame: bytes, flags: int) -> object:
    raise AssertionError("the transport is not open")


class _Socket:
    """What ROUTER and DEALER share: options, waking, draining."""

    def __init__(self, kind: int, endpoint: str, max_frame: int) -> None:
        self._kind = kind
        self._endpoint = endpoint
        self._max_frame = max_frame
        self._socket: zmq.Socket[bytes] | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._wake: Callable[[], None] = lambda: None
        #: Sends one frame, without the checks and flag objects that `send_multipart` makes of each:
        #: a message of eight frames costs 3 us this way and 18 us that way.
        self._send: Callable[[bytes, int], object] = _not_open

    @property
    def socket(self) -> "zmq.Socket[bytes]":
        """The open socket."""
        assert self._socket is not None, "the transport is not open"
        return self._socket

    def _open(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._context = zmq.Context()
        self._socket = socket = self._context.socket(self._kind)
        self._send = super(zmq.Socket, socket).send
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.SNDHWM, SEND_HWM)
        socket.setsockopt(zmq.RCVHWM, RECV_HWM)
        socket.setsockopt(zmq.MAXMSGSIZE, self._max_frame)
        # With it on, an IPv4 endpoint would be reported in its IPv6 form.
        socket.setsockopt(zmq.IPV6, int("[" in self._endpoint))
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)

    def _watch(self) -> None:
        asyncio.get_running_loop().add_reader(self.socket.fileno(), self._wake)
        self._wake()

    def _receive(self, limit: int) -> Iterator[list[bytes]]:
        receive = self.socket.recv_multipart
        try:
            for _ in range(limit):
                yield receive(_LAST)
        except zmq.Again:
            return
        self._wake()

    def flush(self) -> None:
        """Look again whether something came in while we sent: the descriptor will not tell."""
        if self.socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator, arg-type]
            self._wake()

    async def close(self) -> None:
        """Close the socket; what was accepted has a short time to leave."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        context, self._context = self._context, None
        if context is not None:
            await asyncio.to_thread(context.term)


class Router(_Socket):
    """The broker's end: many peers, each with its identity as address.

    Mandatory routing makes a vanished peer and a full queue visible. Handover lets a peer that
    reconnects under its name replace its old connection.
    """

    def __init__(self, endpoint: str, *, max_frame: int = MAX_FRAME, handover: bool = True) -> None:
        super().__init__(zmq.ROUTER, endpoint, max_frame)
        self._handover = handover

    async def open(self, wake: Callable[[], None]) -> str:
        """Bind; port 0 picks a free one."""
        self._open(wake)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, int(self._handover))
        self.socket.setsockopt(zmq.BACKLOG, 4096)
        endpoint = self._endpoint
        try:
            self.socket.bind(f"{endpoint[:-2]}:*" if endpoint.endswith(":0") else endpoint)
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"cannot listen on {endpoint}: {error.strerror}") from None
        self._watch()
        bound = self.socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        return bound.rstrip(b"\0").decode()

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        """Yield what has arrived: (identity, frames)."""
        for frames in self._receive(limit):
            yield frames[0], frames[1:]

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send to the peer of this identity."""
        send = self._send
        try:
            # Only the first frame can fail: it finds the peer and the room for the whole message.
            send(address, _MORE)
            for frame in frames[:-1]:
                send(frame, _MORE)
            send(frames[-1], _LAST)
        except zmq.Again:
            return Sent.FULL
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EINVAL):
                return Sent.GONE
            raise
        return Sent.YES


class Dealer(_Socket):
    """A peer's end: one broker. The address is not used."""

    def __init__(self, endpoint: str, identity: bytes = b"", *, max_frame: int = MAX_FRAME) -> None:
        super().__init__(zmq.DEALER, endpoint, max_frame)
        self._identity = identity

    async def open(self, wake: Callable[[], None]) -> str:
        """Connect; ZeroMQ goes on trying in the background."""
        self._open(wake)
        if self._identity:
            self.socket.setsockopt(zmq.IDENTITY, self._identity)
        self.socket.connect(self._endpoint)
        self._watch()
        return self._endpoint

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        """Yield what has arrived: (empty address, frames)."""
        for frames in self._receive(limit):
            yield b"", frames

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
