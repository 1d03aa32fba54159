"""The web application's connection to the broker: events in, effects out, as objects.

Each HTTP client and each worker session is a peer with an address. Application and broker share a
process and an event loop, so nothing is encoded on the way. To the server's loop this is a
transport whose messages are objects; `HttpBrokerSide` is its other half.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from dragoman.core.events import Event
from dragoman.dialects.base import Address, Send, Subscribed
from dragoman.dialects.http.broker_side import Delivery, Items
from dragoman.transports.base import Key, Sent
from dragoman.web.identity import CALLER, Checks
from dragoman.web.problems import Problem

#: How long the broker may take to answer.
PATIENCE: Final = 30.0


class WebPeer(Protocol):
    """Takes what the broker sends to one address."""

    def take(self, item: Delivery, now: float) -> Sent:
        """Take an effect or a streamed record."""
        ...


class WebBrokerConnection:
    """Hands events of peers over, and delivers effects to them."""

    def __init__(self, checks: Checks | None = None) -> None:
        self._checks = checks
        self._handed_over: deque[tuple[Address, Items]] = deque()
        self._peers: dict[Address, WebPeer] = {}
        #: The key of the caller that uses each address.
        self._keys: dict[Address, Key] = {}
        self._wake: Callable[[], None] = lambda: None
        #: Futures that wait for the broker.
        self._open: set[asyncio.Future[object]] = set()
        self.is_closing = asyncio.Event()

    # --- for the application ------------------------------------------------------------------

    def connect(self, address: Address, peer: WebPeer) -> None:
        """Add a peer; one of the same address is replaced."""
        self._peers[address] = peer

    def disconnect(self, address: Address) -> None:
        """Remove a peer: what is sent to it is undeliverable."""
        self._peers.pop(address, None)
        self._keys.pop(address, None)

    def hand_over(self, address: Address, *items: Event | Send | Subscribed) -> None:
        """Hand events of a peer to the broker, which handles them in its next turn."""
        key = CALLER.get().key
        if key:
            self.check(address)
            self._keys[address] = key
        self._handed_over.append((address, items))
        self._wake()

    async def commit(self, address: Address, *events: Event) -> None:
        """Hand events over; return when everything that they caused is on disk and sent."""
        with self.future() as done:
            acknowledgement: Any = (done,)
            self.hand_over(address, *events, Send(address, acknowledgement, is_strict=True))
            await answered(done)

    @contextmanager
    def future(self) -> "Iterator[asyncio.Future[object]]":
        """Give a future that fails if the broker stops."""
        if self.is_closing.is_set():
            raise stopping()
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._open.add(future)
        try:
            yield future
        finally:
            self._open.discard(future)

    def check(self, address: Address) -> None:
        """Refuse a caller that uses the address of another principal."""
        caller = CALLER.get()
        owner = self._keys.get(address, caller.key)
        if self._checks is not None and self._checks.principal_of(owner) != caller.principal:
            name = address.decode(errors="replace")
            raise Problem(403, f"the name {name!r} belongs to another principal", "denied")

    def fail_waiting(self) -> None:
        """Fail every waiting request: the broker is stopping."""
        self.is_closing.set()
        for future in self._open:
            if not future.done():
                future.set_exception(stopping())

    # --- for the broker -----------------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Start."""
        self._wake = wake
        return "memory://"

    def drain(self, limit: int) -> Iterator[tuple[Address, Any]]:
        """Yield what peers handed over."""
        for _ in range(min(limit, len(self._handed_over))):
            yield self._handed_over.popleft()
        if self._handed_over:
            self._wake()

    def send(self, address: Address, frames: Any) -> Sent:
        """Deliver an effect to its peer, or an acknowledgement to the request that waits."""
        first, *rest = frames
        if isinstance(first, asyncio.Future):
            resolve(first, None)
            return Sent.YES
        peer = self._peers.get(address)
        return peer.take(first, *rest) if peer is not None else Sent.GONE

    def key_of(self, address: Address) -> Key:
        """Return the key of the caller that uses this address."""
        return self._keys.get(address, "")

    def flush(self) -> None:
        """Do nothing: effects are delivered at once."""

    async def close(self) -> None:
        """Remove every peer."""
        self._peers.clear()


def resolve(future: "asyncio.Future[Any]", result: object) -> None:
    """Set the result of a future that may be done already."""
    if not future.done():
        future.set_result(result)


async def answered(future: "asyncio.Future[Any]") -> Any:
    """Wait for the broker's answer; raise a problem if it takes too long."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await future
    except TimeoutError:
        raise Problem(503, f"no answer from the broker within {PATIENCE:g} s", "busy") from None


def stopping() -> Problem:
    """Return the problem of a stopping broker."""
    return Problem(
        503, "the broker is stopping; try again later", "draining", headers={"Retry-After": "2"}
    )
