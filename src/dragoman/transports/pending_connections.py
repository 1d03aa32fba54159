"""Connections of keys that wait for approval: held without an answer, then closed.

libzmq takes an ERROR as final: it never connects again, not even when its key is approved later. If
a connection ends without one, libzmq connects again. So a peer whose key may still be approved is
held for some seconds and then closed. It is closed at once when its key is approved.
"""

import asyncio
from typing import Final, Protocol

from dragoman.transports.base import Admits, Key

#: Seconds that a connection is held. Each attempt costs the broker one handshake.
HOLD: Final = 10.0
#: Connections held at once; a peer beyond them is refused with an ERROR.
#: With `HOLD` this allows 50 attempts a second, half of what may fail.
MOST_HELD: Final = 500
#: Seconds between two looks at the keys.
_LOOK: Final = 0.5


class HeldConnection(Protocol):
    """A connection in the middle of its handshake."""

    transport: asyncio.Transport


class PendingConnections:
    """The held connections of one listener, with their keys."""

    def __init__(self, admits: Admits) -> None:
        self._admits = admits
        #: The key, and when the connection is closed at the latest.
        self._held: dict[HeldConnection, tuple[Key, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, connection: HeldConnection, key: Key) -> bool:
        """Hold a connection; return False if too many are held."""
        if len(self._held) >= MOST_HELD:
            return False
        loop = asyncio.get_running_loop()
        self._held[connection] = key, loop.time() + HOLD
        if self._timer is None:
            self._timer = loop.call_later(_LOOK, self._look)
        return True

    def forget(self, connection: HeldConnection) -> None:
        """Forget a connection that has ended."""
        self._held.pop(connection, None)

    def close(self) -> None:
        """Stop looking; the listener closes the connections."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Close what was held long enough, and what would be admitted now."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection, (key, until) in list(self._held.items()):
            if now >= until or self._admits(key):
                del self._held[connection]
                connection.transport.abort()
        self._timer = loop.call_later(_LOOK, self._look) if self._held else None
