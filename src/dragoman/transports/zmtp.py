"""A ZeroMQ ROUTER on asyncio that speaks ZMTP itself: many peers, addressed by their identity.

A peer sends its identity in the handshake. Without one it gets five bytes that begin with zero, as
in libzmq. Without CURVE, a new connection takes over an identity in use: the peer has reconnected.
With CURVE, only the same key may take it over. With CURVE, a connection also receives nothing
before its first message, unless its key was the last to send under that identity. So a silent
stranger that claims an absent peer's identity receives nothing.

Messages of an ended connection are still drained, and its identity stays reserved until then:
`key_of` is the key that sent the messages just drained. `ConnectionLimits` bounds what peers use.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import count
from secrets import randbelow
from typing import Final

from dragoman.transports.accept_limiter import OVER_LIMIT, AcceptLimiter
from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import Address, Admits, Frames, Key, Refused, Sent
from dragoman.transports.listener import Listener
from dragoman.transports.origins import ORIGINS
from dragoman.transports.pending_connections import PendingConnections
from dragoman.transports.zmtp_connection import ZmtpConnection
from dragoman.transports.zmtp_curve import Curve, CurveKeyPair
from dragoman.transports.zmtp_mechanism import BROKEN_OFF, ConnectionRejected, Mechanism, Null

#: Frames above this size end the connection they came on.
MAX_FRAME: Final = 64 * 1024 * 1024
#: Messages drained from one peer before the next peer has its turn.
MESSAGES_PER_TURN: Final = 32
#: CURVE handshake commands per turn of the event loop: each costs 0.1 ms.
HANDSHAKES_PER_TURN: Final = 2
#: Identities whose last key is remembered.
_REMEMBERED: Final = 100_000


def _limits(max_frame: int) -> ConnectionLimits:
    """Return the default limits; undrained messages are counted for each peer."""
    return ConnectionLimits(
        message=max_frame,
        connections=50_000,
        ungreeted=4096,
        undrained=1000,
        undrained_bytes=max(2 * max_frame, 4 * 1024 * 1024),
        unsent_limit=64 * 1024 * 1024,
    )


class Router(Listener[ZmtpConnection]):
    """The broker's end."""

    def __init__(
        self,
        endpoints: str,
        *,
        secrets: Sequence[bytes] = (),
        admits: Admits | None = None,
        refused: Refused | None = None,
        max_frame: int = MAX_FRAME,
        limits: ConnectionLimits | None = None,
    ) -> None:
        """Prepare.

        Args:
            endpoints: the endpoints, separated by commas.
            secrets: the broker's secret keys in Z85; peers may use any. None: no encryption.
            admits: called with each peer's key at its handshake.
            refused: called with a refused key, and the name and address that its peer shows.
            max_frame: bytes of the largest frame.
            limits: replaces the default limits.

        """
        super().__init__(endpoints, limits or _limits(max_frame), admits)
        self._key_pairs = [CurveKeyPair(secret) for secret in secrets]
        self._refused = refused
        self._pending = PendingConnections(self._admits_now) if admits is not None else None
        guarded = self._endpoints if secrets else []
        self._limiters = [AcceptLimiter(self._count_over_limit) for _ in guarded]
        self._by_address: dict[Address, ZmtpConnection] = {}
        #: The key that last sent a message under each identity.
        self._last_keys: OrderedDict[Address, Key] = OrderedDict()
        #: Connections whose inbox is not empty, in round-robin order.
        self._ready: deque[ZmtpConnection] = deque()
        #: Ended connections that are fully drained.
        self._ended: list[ZmtpConnection] = []
        self._handshakes_due: deque[tuple[ZmtpConnection, bytes]] = deque()
        #: Addresses do not recur after a restart: work of one peer would be expected of another.
        self._next_unnamed = count(randbelow(2**32))

    @property
    def is_secured(self) -> bool:
        """Whether peers must prove a CURVE key."""
        return bool(self._key_pairs)

    # --- listening ----------------------------------------------------------------------------

    def _protocol(self, number: int, is_ipc: bool) -> Callable[[], asyncio.Protocol]:
        return lambda: ZmtpConnection(self, is_ipc, self._mechanism(), number)

    def _mechanism(self) -> Mechanism:
        return Curve(self._key_pairs, self.admits, self._refused) if self._key_pairs else Null()

    def _listens(self, number: int, fd: int) -> None:
        if self._limiters:
            self._limiters[number].attach(fd)

    async def close(self) -> None:
        """Stop the limiters, then close the listener."""
        for limiter in self._limiters:
            limiter.close()
        if self._pending is not None:
            self._pending.close()
        await super().close()

    # --- the transport ------------------------------------------------------------------------

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Take what has arrived, round robin over the peers: (identity, frames)."""
        ended, self._ended = self._ended, []
        for connection in ended:
            self._forget(connection)
        taken: list[tuple[Address, list[bytes]]] = []
        ready = self._ready
        while ready and len(taken) < limit:
            connection = ready.popleft()
            inbox, address = connection.inbox, connection.address
            turn = range(min(len(inbox), limit - len(taken), MESSAGES_PER_TURN))
            taken += [(address, inbox.popleft()) for _ in turn]
            if inbox:
                ready.append(connection)
            else:
                self._drained(connection)
        if ready:
            asyncio.get_running_loop().call_soon(self._wake)
        return taken

    def _drained(self, connection: ZmtpConnection) -> None:
        connection.is_ready = False
        connection.drained()
        if connection.has_ended:
            # Forgotten at the next drain: the caller still asks for the key of these messages.
            self._ended.append(connection)
            asyncio.get_running_loop().call_soon(self._wake)

    def send(self, address: Address, frames: Frames) -> Sent:
        """Queue a message for the peer of this identity; `flush` writes it."""
        connection = self._by_address.get(address)
        if (
            connection is None
            or not connection.may_receive
            or connection.has_ended
            or connection.transport.is_closing()
        ):
            return Sent.GONE
        if connection.unsent > self.limits.unsent_limit:
            self.note("messages unread", connection)
            return Sent.FULL
        connection.queue(frames)
        self._dirty[connection] = None
        return Sent.YES

    def key_of(self, address: Address) -> Key:
        """Return the key of the peer that sends under this identity."""
        connection = self._by_address.get(address)
        return connection.key if connection is not None and connection.has_sent else ""

    # --- called by connections ----------------------------------------------------------------

    def admit(self, connection: ZmtpConnection) -> bool:
        """Count a new connection and keep it if the limits allow it."""
        if self._limiters:
            self._limiters[connection.number].arrived()
        return super().admit(connection)

    def schedule_handshake(self, connection: ZmtpConnection, body: bytes) -> None:
        """Run a handshake command: NULL at once, CURVE (which costs CPU) in its turn."""
        # Not earlier: a node that passes a connection through names its peer before the first byte.
        name = ORIGINS.address_of(connection.transport)
        if isinstance(connection.mechanism, Curve) and name is not None:
            connection.mechanism.address = f"{name[0]}:{name[1]}"
        if not self._key_pairs:
            connection.run_handshake(body)
            return
        connection.has_handshake_due = True
        self._handshakes_due.append((connection, body))
        if len(self._handshakes_due) == 1:
            asyncio.get_running_loop().call_soon(self._run_handshakes)

    def _run_handshakes(self) -> None:
        for _ in range(min(HANDSHAKES_PER_TURN, len(self._handshakes_due))):
            connection, body = self._handshakes_due.popleft()
            if connection.has_ended or connection.transport.is_closing():
                continue
            try:
                connection.run_handshake(body)
            except ConnectionRejected as refused:
                connection.refuse(refused)
        if self._handshakes_due:
            asyncio.get_running_loop().call_soon(self._run_handshakes)

    def _admits_now(self, key: Key) -> bool:
        # Not the given one: the keys of other namespaces may be added to it.
        return self.admits is None or self.admits(key)

    def hold(self, connection: ZmtpConnection, key: Key) -> bool:
        """Hold a connection whose key waits for approval, unless there are too many."""
        if self._pending is None or not self._pending.hold(connection, key):
            return False
        self.greeted(connection)
        return True

    def choose_namespace(self, connection: ZmtpConnection) -> bool:
        """Hand a connection over to the router of its key's namespace."""
        other = self.route(connection.key) if connection.key else None
        if other is None:
            return True
        connection.router = other
        return self.hand_over(connection, other)

    def assign_address(self, connection: ZmtpConnection, wanted: Address) -> bool:
        """Give a connection its identity, unless another key holds it."""
        address = wanted or b"\0" + (next(self._next_unnamed) & 0xFFFFFFFF).to_bytes(4)
        before = self._by_address.get(address)
        if before is not None and before.key != connection.key:
            return False
        connection.address = address
        connection.may_receive = (
            not self._key_pairs or self._last_keys.get(address) == connection.key
        )
        self._by_address[address] = connection
        if before is not None:
            # The messages of the old connection come first; it delivers nothing after that.
            connection.inbox.extend(before.inbox)
            before.inbox.clear()
            before.transport.abort()
            if connection.inbox:
                self.messages_arrived(connection)
        return True

    def messages_arrived(self, connection: ZmtpConnection) -> None:
        """Queue a connection to be drained."""
        if not connection.has_sent:
            self._remember_key(connection)
        if not connection.is_ready:
            connection.is_ready = True
            self._ready.append(connection)
        connection.pause_if_full()
        self._wake()

    def _remember_key(self, connection: ZmtpConnection) -> None:
        connection.has_sent = connection.may_receive = True
        if self._key_pairs:
            self._last_keys[connection.address] = connection.key
            self._last_keys.move_to_end(connection.address)
            if len(self._last_keys) > _REMEMBERED:
                self._last_keys.popitem(last=False)

    def _released(self, connection: ZmtpConnection) -> None:
        if self._pending is not None:
            self._pending.forget(connection)
        if not connection.is_open and not connection.is_refused:
            self.note(BROKEN_OFF, connection)
        if not connection.inbox:
            self._forget(connection)

    def _forget(self, connection: ZmtpConnection) -> None:
        if self._by_address.get(connection.address) is connection:
            del self._by_address[connection.address]

    def note(self, reason: str, connection: ZmtpConnection) -> None:
        """Count a failure by its reason; a failed handshake also counts at the limiter."""
        super().note(reason, connection)
        if self._limiters and not connection.is_open:
            source = ORIGINS.address_of(connection.transport)
            self._limiters[connection.number].failed(source[0] if source else "")

    def _count_over_limit(self) -> None:
        self.trouble[OVER_LIMIT] += 1
