"""The broker's ROUTER with CURVE: every peer has proved a key before it is heard.

libzmq routes by the name that a peer gives itself, and knows nothing of keys there. So this side
keeps *seats*: which connection speaks under which name, and with which key. What follows from it:

* The connection that has a name keeps it. libzmq's handover would let any peer with any admitted
  key take another's name, and with it what is sent there, without a word; so it is off.
* Nothing is sent to a name until its connection has spoken, and nothing after that has ended: a
  silent stranger that sits on the name of somebody who is away gets nothing.
* A peer whose host vanished without a word keeps its name until the kernel notices: some seconds.
* Strangers have a budget of handshakes that fail, so that those who are in are served meanwhile.
* `cut` shuts the descriptors of a key's connections, which libzmq notices like any broken line.

Two keys of the broker at once, for a rotation: libzmq has one per socket, so each has an endpoint
of its own, by commas. Names are shared by all of them.
"""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final

import zmq

from dragoman.transports.base import Address, Admits, Frames, Key, Sent
from dragoman.transports.doorstep import TURNED_AWAY, Doorstep
from dragoman.transports.zap import Zap
from dragoman.transports.zmq import MAX_FRAME, Router

_DONT_WAIT: Final = int(zmq.NOBLOCK)
_EVENT: Final = Struct("=Hi")
_LISTENS: Final = int(zmq.Event.LISTENING)
_CAME: Final = int(zmq.Event.ACCEPTED)
_WENT: Final = int(zmq.Event.DISCONNECTED)
_FAILED: Final = {
    int(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL): "handshake broken off",
    int(zmq.Event.HANDSHAKE_FAILED_PROTOCOL): "no CURVE, or another broker's key",
}
_WATCHED: Final = _LISTENS | _CAME | _WENT | sum(_FAILED)
#: How long a handshake may take.
_HANDSHAKE_MS: Final = 5000
#: When the kernel gives up on a host that is gone: idle, between probes (s), and their number.
_KEEP_ALIVE: Final = ((zmq.TCP_KEEPALIVE_IDLE, 3), (zmq.TCP_KEEPALIVE_INTVL, 1))
_PROBES: Final = 3
_UNANSWERED_MS: Final = 5000


class Seat:
    """Who speaks under a name: a connection and the key it proved."""

    __slots__ = ("fd", "inode", "is_open", "key", "listener")

    def __init__(self, listener: "_Listener", fd: int, key: Key, is_open: bool) -> None:
        self.listener = listener
        self.fd = fd
        self.key = key
        self.is_open = is_open
        self.inode = _inode(fd) if is_open else 0


Seats = dict[Address, Seat]


class _Listener(Router):
    """One endpoint with one key of the broker."""

    #: libzmq encrypts every frame in them; connections are spread over them.
    io_threads = 2

    def __init__(
        self, endpoint: str, secret: bytes, seats: Seats, owner: "CurveRouter", max_frame: int
    ) -> None:
        super().__init__(endpoint, max_frame=max_frame, handover=False)
        self._secret = secret
        self._seats = seats
        self._owner = owner
        self._doorstep = Doorstep(self._turned_away)
        self._zap = Zap(owner.admits, owner.trouble, self._is_here, self._doorstep.failed)
        #: Descriptors of connections, and the names of those that have spoken.
        self._open_fds: set[int] = set()
        self._name_of: dict[int, Address] = {}
        #: Names of those that spoke and had gone when it was read.
        self._departed: list[Address] = []

    def _prepare(self) -> None:
        sock = self.socket
        sock.setsockopt(zmq.CURVE_SERVER, 1)
        sock.setsockopt(zmq.CURVE_SECRETKEY, self._secret)
        sock.setsockopt(zmq.ZAP_DOMAIN, b"dragoman")
        sock.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        for option, seconds in _KEEP_ALIVE:
            sock.setsockopt(option, seconds)
        sock.setsockopt(zmq.TCP_KEEPALIVE_CNT, _PROBES)
        sock.setsockopt(zmq.TCP_MAXRT, _UNANSWERED_MS)
        assert self._context is not None
        self._zap.open(self._context)
        self._follow(_WATCHED, self.look_around)

    async def close(self) -> None:
        """Close the socket and what belongs to it."""
        self._zap.close()
        self._doorstep.close()
        await super().close()

    def _turned_away(self) -> None:
        self._owner.trouble[TURNED_AWAY] += 1

    def _is_here(self, key: Key) -> bool:
        # First what has ended: descriptors are used again, and must not find their old seats.
        self.look_around()
        return key in self._owner.here

    # --- who comes and goes -------------------------------------------------------------------

    def look_around(self) -> None:
        """Take note of connections that came and went."""
        monitor = self._monitor
        while monitor is not None and monitor.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator, arg-type]
            number, fd = _EVENT.unpack_from(monitor.recv_multipart(_DONT_WAIT)[0])
            if number == _CAME:
                self._open_fds.add(fd)
                self._doorstep.arrived()
            elif number == _WENT:
                self._went(fd)
            elif number in _FAILED:
                self._owner.trouble[_FAILED[number]] += 1
                self._doorstep.failed()
            elif number == _LISTENS:
                self._doorstep.listens(fd)

    def _went(self, fd: int) -> None:
        self._open_fds.discard(fd)
        name = self._name_of.pop(fd, None)
        if name is not None:
            seat = self._seats.get(name)
            if seat is not None and seat.fd == fd and seat.listener is self:
                self._owner.rise(name)

    # --- messages -----------------------------------------------------------------------------

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        """Yield what has arrived: (identity, frames)."""
        while self._departed:
            self._owner.rise(self._departed.pop())
        self.look_around()
        receive, seats = self.socket.recv, self._seats
        try:
            for _ in range(limit):
                head = frame = receive(_DONT_WAIT, copy=False)
                name, frames = head.bytes, []
                while frame.more:
                    frame = receive(_DONT_WAIT, copy=False)
                    frames.append(frame.bytes)
                seat = seats.get(name)
                fd = head.get(zmq.SRCFD)
                if (seat is not None and seat.fd == fd and seat.listener is self) or self._sit_down(
                    name, int(fd), head
                ):
                    yield name, frames
        except zmq.Again:
            return
        self._wake()

    def _sit_down(self, name: Address, fd: int, head: zmq.Frame) -> bool:
        """Give a connection that speaks for the first time its seat; tell whether it has one."""
        key = f"curve:{head.get('User-Id')}"
        self.look_around()
        owner = self._owner
        if owner.admits is not None and not owner.admits(key):
            return self._turn_away(fd, "key refused")
        seat = self._seats.get(name)
        if seat is not None and seat.listener is not self and seat.is_open and seat.key != key:
            return self._turn_away(fd, "name taken")
        if seat is not None:
            owner.rise(name)
            hang_up(seat)
        is_open = fd in self._open_fds
        owner.sit(name, Seat(self, fd, key, is_open))
        if is_open:
            self._name_of[fd] = name
        else:
            self._departed.append(name)
        return True

    def _turn_away(self, fd: int, why: str) -> bool:
        self._owner.trouble[why] += 1
        if fd in self._open_fds:
            hang_up(Seat(self, fd, "", True))
        return False


class CurveRouter:
    """The broker's end for peers with keys. Addresses are their names, as with `Router`."""

    def __init__(
        self,
        endpoints: str,
        secrets: Sequence[bytes],
        *,
        admits: Admits | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        """Prepare.

        Args:
            endpoints: where to listen, one for each key of the broker, by commas.
            secrets: the broker's secret keys in Z85, the one to stay first.
            admits: asked with each peer's key at its handshake.
            max_frame: bytes of the largest frame.

        """
        places = [place.strip() for place in endpoints.split(",")]
        if len(places) != len(secrets):
            raise ValueError(
                f"{len(secrets)} CURVE keys of the broker need {len(secrets)} endpoints, by commas:"
                f" ZeroMQ has one key per endpoint, and there are {len(places)}"
            )
        self.admits = admits
        #: What was refused, by reason.
        self.trouble: Counter[str] = Counter()
        #: Connections by key.
        self.here: Counter[Key] = Counter()
        self._seats: Seats = {}
        self._listeners = [
            _Listener(place, secret, self._seats, self, max_frame)
            for place, secret in zip(places, secrets, strict=True)
        ]

    async def open(self, wake: Callable[[], None]) -> str:
        """Bind every endpoint; return them in full."""
        return ",".join([await listener.open(wake) for listener in self._listeners])

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        """Yield what has arrived on all endpoints."""
        for listener in self._listeners:
            yield from listener.drain(limit)

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send to the peer of this name, if it is the one that spoke under it."""
        seat = self._seats.get(address)
        if seat is None or not seat.is_open:
            return Sent.GONE
        seat.listener.look_around()
        if address not in self._seats:
            return Sent.GONE
        return seat.listener.send(address, frames)

    def flush(self) -> None:
        """Look again whether something came in while we sent."""
        for listener in self._listeners:
            listener.flush()

    async def close(self) -> None:
        """Let go of every endpoint."""
        for listener in self._listeners:
            await listener.close()

    # --- keys ---------------------------------------------------------------------------------

    def key_of(self, address: Address) -> Key:
        """Return the key of whoever speaks under this name."""
        seat = self._seats.get(address)
        return "" if seat is None else seat.key

    def cut(self, key: Key) -> None:
        """Hang up on every connection of a key that has spoken; others are when they speak."""
        for name, seat in list(self._seats.items()):
            if seat.key == key:
                self.rise(name)
                hang_up(seat)

    def sit(self, name: Address, seat: Seat) -> None:
        """Let a connection have a name."""
        self._seats[name] = seat
        self.here[seat.key] += 1

    def rise(self, name: Address) -> None:
        """Free a name."""
        seat = self._seats.pop(name, None)
        if seat is not None:
            self.here[seat.key] -= 1
            if self.here[seat.key] <= 0:
                del self.here[seat.key]


def hang_up(seat: Seat) -> None:
    """Shut a connection, if its descriptor is still its own; libzmq closes it then."""
    with suppress(OSError), socket.socket(fileno=os.dup(seat.fd)) as line:
        if os.fstat(line.fileno()).st_ino == seat.inode:
            line.shutdown(socket.SHUT_RDWR)


def _inode(fd: int) -> int:
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return 0
