"""The connections of a mesh: one listener for brokers that connect, one dealer for each other.

An address begins with the direction, so that no broker can take the address of another by its
name: `<` and the identity of one that connected, `>` and the label of one that this one dials.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from dragoman.transports.base import Address, Frames, Key, Sent
from dragoman.transports.dealer import Dealer
from dragoman.transports.zmq_peers import CurveKeys
from dragoman.transports.zmtp import Router

INCOMING: Final = b"<"
OUTGOING: Final = b">"


def dial_address(label: str) -> Address:
    """Return the address of a broker that this one connects to."""
    return OUTGOING + label.encode()


class MeshDealer(Dealer):
    """The connection to one broker. It tells when it is lost, and sends nothing meanwhile."""

    def __init__(self, endpoint: str, identity: bytes, keys: CurveKeys | None = None) -> None:
        super().__init__(endpoint, identity, keys=keys)
        self.endpoint = endpoint
        #: The key that the other broker proves.
        self.key = "" if keys is None else f"curve:{keys.server.decode()}"
        self.was_lost = False

    @property
    def is_connected(self) -> bool:
        """Whether messages leave now."""
        return self._session.is_open and self._transport is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the loss: messages may be lost with the connection."""
        self.was_lost = self.was_lost or self._session.is_open
        super().connection_lost(exc)
        self._wake()


class MeshTransport:
    """All connections to other brokers."""

    def __init__(self, router: Router | None, dealers: Mapping[str, MeshDealer]) -> None:
        self.dealers = {dial_address(label): dealer for label, dealer in dealers.items()}
        self._router = router

    async def open(self, wake: Callable[[], None]) -> str:
        """Listen if asked to, and begin to connect; return the endpoint of the listener."""
        endpoint = "memory:mesh" if self._router is None else await self._router.open(wake)
        for dealer in self.dealers.values():
            await dealer.open(wake)
        return endpoint

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        """Yield what has arrived. A message without frames: that connection was lost."""
        for address, dealer in self.dealers.items():
            for _, frames in dealer.drain(limit):
                yield address, frames
            if dealer.was_lost:
                dealer.was_lost = False
                yield address, []
        if self._router is not None:
            for identity, frames in islice(self._router.drain(limit), limit):
                yield INCOMING + identity, frames

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send one message; a broker without a connection is gone."""
        dealer = self.dealers.get(address)
        if dealer is not None:
            return dealer.send(b"", frames) if dealer.is_connected else Sent.GONE
        if self._router is None or not address.startswith(INCOMING):
            return Sent.GONE
        return self._router.send(address[1:], frames)

    def flush(self) -> None:
        """Write what was sent."""
        for dealer in self.dealers.values():
            dealer.flush()
        if self._router is not None:
            self._router.flush()

    def key_of(self, address: Address) -> Key:
        """Return the key that the broker at this address has proved."""
        dealer = self.dealers.get(address)
        if dealer is not None:
            return dealer.key
        return self._router.key_of(address[1:]) if self._router is not None else ""

    def cut(self, key: Key) -> None:
        """Close every connection of a key that brokers opened to here."""
        if self._router is not None:
            self._router.cut(key)

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        own = sum(dealer.is_connected for dealer in self.dealers.values())
        return own + (self._router.connection_count if self._router is not None else 0)

    @property
    def trouble(self) -> Mapping[str, int]:
        """Connections that the listener has refused, by reason."""
        return self._router.trouble if self._router is not None else {}

    async def close(self) -> None:
        """Close everything."""
        closing = [dealer.close() for dealer in self.dealers.values()]
        if self._router is not None:
            closing.append(self._router.close())
        await asyncio.gather(*closing)
