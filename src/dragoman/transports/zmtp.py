"""ZeroMQ's ROUTER on asyncio, speaking ZMTP itself: many peers, each with its name as address.

A peer names itself in its handshake; one without a name gets five bytes that begin with zero, as
from libzmq. In plain, a peer that connects under a name that is taken has it from then on: it is
somebody who comes back. With keys (CURVE) that is so for the same key only. And nothing is sent to
a name before its connection has spoken, unless the key is the one that spoke under it last: a
silent stranger that sits on the name of somebody who is away gets nothing.

What came from a connection is heard even if it has ended since, and its name is nobody else's until
then: `key_of` is the key of whoever said what was just drained. What peers may use up is bounded.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from dragoman.transports.accept_limiter import OVER_LIMIT, AcceptLimiter
from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import Address, Admits, Frames, Key, Sent
from dragoman.transports.listener import Listener
from dragoman.transports.zmtp_connection import ZmtpConnection
from dragoman.transports.zmtp_curve import Curve, CurveKeyPair
from dragoman.transports.zmtp_mechanism import BROKEN_OFF, ConnectionRejected, Mechanism, Null

#: Frames above this size end the connection they came on.
MAX_FRAME: Final = 64 * 1024 * 1024
#: Messages heard of one peer before the next one has its turn.
TURN: Final = 32
#: Handshakes with keys that are considered before everybody else has a turn: each costs 0.1 ms.
SHAKES: Final = 2
#: Names whose last speaker is remembered.
_REMEMBERED: Final = 100_000


def _bounds(max_frame: int) -> ConnectionLimits:
    """Return what peers may use up; what waits to be drained is counted for each of them."""
    return ConnectionLimits(
        message=max_frame,
        connections=50_000,
        ungreeted=4096,
        waiting=1000,
        waiting_bytes=max(2 * max_frame, 4 * 1024 * 1024),
        unread_limit=64 * 1024 * 1024,
    )


class Router(Listener[ZmtpConnection]):
    """The broker's end."""

    def __init__(
        self,
        endpoints: str,
        *,
        secrets: Sequence[bytes] = (),
        admits: Admits | None = None,
        max_frame: int = MAX_FRAME,
        bounds: ConnectionLimits | None = None,
    ) -> None:
        """Prepare.

        Args:
            endpoints: where to listen, by commas.
            secrets: the broker's secret keys in Z85; peers may know any. None: no encryption.
            admits: asked with each peer's key at its handshake.
            max_frame: bytes of the largest frame.
            bounds: what peers may use up, instead of what is usual.

        """
        super().__init__(endpoints, bounds or _bounds(max_frame), admits)
        self._identities = [CurveKeyPair(secret) for secret in secrets]
        guarded = self._endpoints if secrets else []
        self._doorsteps = [AcceptLimiter(self._turned_away) for _ in guarded]
        self._names: dict[Address, ZmtpConnection] = {}
        #: Who said something last under a name, by their keys.
        self._speakers: OrderedDict[Address, Key] = OrderedDict()
        #: Connections whose inboxes are not empty, in the order of their turns.
        self._in_line: deque[ZmtpConnection] = deque()
        #: Those that ended and have been heard to the end.
        self._departed: list[ZmtpConnection] = []
        self._shaking: deque[tuple[ZmtpConnection, bytes]] = deque()
        self._unnamed = count(1)

    @property
    def is_secured(self) -> bool:
        """Whether peers have to prove a key."""
        return bool(self._identities)

    # --- listening ----------------------------------------------------------------------------

    def _protocol(self, number: int, is_ipc: bool) -> Callable[[], asyncio.Protocol]:
        return lambda: ZmtpConnection(self, is_ipc, self._mechanism(), number)

    def _mechanism(self) -> Mechanism:
        return Curve(self._identities, self.admits) if self._identities else Null()

    def _listens(self, number: int, fd: int) -> None:
        if self._doorsteps:
            self._doorsteps[number].attach(fd)

    async def close(self) -> None:
        """Close as every listener does."""
        for doorstep in self._doorsteps:
            doorstep.close()
        await super().close()

    # --- the transport ------------------------------------------------------------------------

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Take what has arrived, some of each peer in turn: (name, frames)."""
        departed, self._departed = self._departed, []
        for connection in departed:
            self._forget(connection)
        taken: list[tuple[Address, list[bytes]]] = []
        in_line = self._in_line
        while in_line and len(taken) < limit:
            connection = in_line.popleft()
            inbox, address = connection.inbox, connection.address
            turn = range(min(len(inbox), limit - len(taken), TURN))
            taken += [(address, inbox.popleft()) for _ in turn]
            if inbox:
                in_line.append(connection)
            else:
                self._is_heard(connection)
        if in_line:
            asyncio.get_running_loop().call_soon(self._wake)
        return taken

    def _is_heard(self, connection: ZmtpConnection) -> None:
        connection.is_in_line = False
        connection.drained()
        if connection.has_ended:
            # Not yet: what was taken of it is still to be looked at, under its key.
            self._departed.append(connection)
            asyncio.get_running_loop().call_soon(self._wake)

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send to the peer of this name; it leaves with the next `flush`."""
        connection = self._names.get(address)
        if (
            connection is None
            or not connection.may_hear
            or connection.has_ended
            or connection.transport.is_closing()
        ):
            return Sent.GONE
        if connection.unread > self.bounds.unread_limit:
            self.note("messages unread", connection)
            return Sent.FULL
        connection.queue(frames)
        self._dirty[connection] = None
        return Sent.YES

    def key_of(self, address: Address) -> Key:
        """Return the key of whoever speaks under this name."""
        connection = self._names.get(address)
        return connection.key if connection is not None and connection.has_spoken else ""

    # --- what connections tell ----------------------------------------------------------------

    def admit(self, line: ZmtpConnection) -> bool:
        """Let a new connection in, if there is room."""
        if self._doorsteps:
            self._doorsteps[line.number].arrived()
        return super().admit(line)

    def shake(self, connection: ZmtpConnection, body: bytes) -> None:
        """Consider a command of a handshake: at once, or where it costs something in its turn."""
        if not self._identities:
            connection.shake(body)
            return
        connection.is_shaking = True
        self._shaking.append((connection, body))
        if len(self._shaking) == 1:
            asyncio.get_running_loop().call_soon(self._shake_some)

    def _shake_some(self) -> None:
        for _ in range(min(SHAKES, len(self._shaking))):
            connection, body = self._shaking.popleft()
            if connection.has_ended or connection.transport.is_closing():
                continue
            try:
                connection.shake(body)
            except ConnectionRejected as refused:
                connection.refuse(refused)
        if self._shaking:
            asyncio.get_running_loop().call_soon(self._shake_some)

    def name(self, connection: ZmtpConnection, wanted: Address) -> bool:
        """Let a connection have a name, unless it is another key's."""
        address = wanted or b"\0" + (next(self._unnamed) & 0xFFFFFFFF).to_bytes(4)
        before = self._names.get(address)
        if before is not None and before.key != connection.key:
            return False
        connection.address = address
        connection.may_hear = not self._identities or self._speakers.get(address) == connection.key
        self._names[address] = connection
        if before is not None:
            # What it said before comes first; nothing of it is heard after that.
            connection.inbox.extend(before.inbox)
            before.inbox.clear()
            before.transport.abort()
            if connection.inbox:
                self.heard(connection)
        return True

    def heard(self, connection: ZmtpConnection) -> None:
        """Have a connection in line to be drained."""
        if not connection.has_spoken:
            self._spoke(connection)
        if not connection.is_in_line:
            connection.is_in_line = True
            self._in_line.append(connection)
        connection.hold_if_full()
        self._wake()

    def _spoke(self, connection: ZmtpConnection) -> None:
        connection.has_spoken = connection.may_hear = True
        if self._identities:
            self._speakers[connection.address] = connection.key
            self._speakers.move_to_end(connection.address)
            if len(self._speakers) > _REMEMBERED:
                self._speakers.popitem(last=False)

    def _released(self, line: ZmtpConnection) -> None:
        if not line.is_open and not line.is_refused:
            self.note(BROKEN_OFF, line)
        if not line.inbox:
            self._forget(line)

    def _forget(self, connection: ZmtpConnection) -> None:
        if self._names.get(connection.address) is connection:
            del self._names[connection.address]

    def note(self, why: str, line: ZmtpConnection) -> None:
        """Count what was refused or given up; a handshake that fails is paid for."""
        super().note(why, line)
        if self._doorsteps and not line.is_open:
            source = line.transport.get_extra_info("peername")
            self._doorsteps[line.number].failed(str(source[0]) if source else "")

    def _turned_away(self) -> None:
        self.trouble[OVER_LIMIT] += 1
