"""The origins of connections that another broker of the cluster passed through to this one.

A passed connection comes from the other broker's address. That broker tells whose connection it is
before it passes the first byte, over a channel that only members of the cluster can use. Records,
logs and limits then name the peer, not the broker in between.
"""

from collections import OrderedDict
from typing import Any, Final, Protocol

#: Connections whose origin is remembered; one more forgets the oldest.
_MOST: Final = 50_000


class ConnectionInfo(Protocol):
    """The part of an asyncio transport that knows its peer."""

    def get_extra_info(self, name: str, /) -> Any:
        """Return what the transport knows under a name."""
        ...


class Origins:
    """Addresses of peers, by the address that their connections come from."""

    def __init__(self) -> None:
        self._by_source: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def add(self, source: str, origin: str, node: str) -> None:
        """Remember a connection's peer, and the node that passes it through."""
        self._by_source[source] = (origin, node)
        self._by_source.move_to_end(source)
        if len(self._by_source) > _MOST:
            self._by_source.popitem(last=False)

    def forget(self, transport: ConnectionInfo) -> None:
        """Forget a connection that has ended: its port may come back with another peer."""
        if self._by_source:
            self._by_source.pop(_text(transport.get_extra_info("peername")), None)

    def node_of(self, source: object) -> str:
        """Return the node that passed a connection through; empty if none did."""
        return self._by_source.get(_text(source), ("", ""))[1]

    def address_of(self, transport: ConnectionInfo) -> tuple[str, int] | None:
        """Return the address of a connection's peer; None if it has none, as with IPC."""
        name = transport.get_extra_info("peername")
        if not isinstance(name, tuple):
            return None
        found = self._by_source.get(_text(name)) if self._by_source else None
        if found is None or not found[0]:
            return (str(name[0]), int(name[1]))
        host, _, port = found[0].rpartition(":")
        return (host, int(port))


def _text(name: object) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple | list) and name else ""


#: Those of this process. A source address belongs to one connection of the machine at a time.
ORIGINS: Final = Origins()
