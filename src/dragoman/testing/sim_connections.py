"""Simulated connections of dialects: a DEALER, an NNG requester, a NATS subscriber.

A connection stands for a peer's transport. It knows addresses and not the content of messages.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Final, Protocol

from dragoman.dialects.base import Frames
from dragoman.testing.network import Network
from dragoman.testing.world import World

Receive = Callable[[list[bytes]], None]
Arrive = Callable[[str, object, object], None]
#: An open request is resent after this many seconds, as NNG does.
RESEND_AFTER: Final = 2.0


class SimHub:
    """The addresses and subjects of all simulated connections."""

    def __init__(self, world: World, network: Network, arrive: Arrive) -> None:
        self.world = world
        self.network = network
        self.arrive = arrive
        #: (link, address) -> peer name and its receive function.
        self.addresses: dict[tuple[str, bytes], tuple[str, Receive]] = {}
        #: Subscriptions: (link, pattern, peer name, receive function).
        self.subjects: list[tuple[str, str, str, Receive]] = []

    def find(self, link: str, address: bytes) -> tuple[str, Receive] | None:
        """Return the receiver of an address."""
        found = self.addresses.get((link, bytes(address)))
        if found is None:
            found = self._subscriber(link, address)
        return found

    def _subscriber(self, link: str, address: bytes) -> tuple[str, Receive] | None:
        subject = bytes(address).decode(errors="replace")
        for on, pattern, name, receive in self.subjects:
            if on == link and _matches(pattern, subject):
                return name, partial(_receive_on, receive, subject.encode())
        return None


def _receive_on(receive: Receive, subject: bytes, frames: list[bytes]) -> None:
    receive([subject, *frames])


def _matches(pattern: str, subject: str) -> bool:
    wanted, found = pattern.split("."), subject.split(".")
    for n, token in enumerate(wanted):
        if token == ">":
            return True
        if n >= len(found) or token not in ("*", found[n]):
            return False
    return len(wanted) == len(found)


class SimConnection(Protocol):
    """A peer's end of its transport."""

    def open(self) -> None:
        """Open a new connection."""
        ...

    def close(self) -> None:
        """Close the connection; the other end may notice."""
        ...

    def send(self, frames: Frames) -> None:
        """Send one message."""
        ...


class SimDealer:
    """A ZeroMQ DEALER: one address, its name."""

    def __init__(self, hub: SimHub, link: str, name: str, receive: Receive) -> None:
        self._hub, self._link, self._name, self._receive = hub, link, name, receive
        self._address = name.encode()

    def open(self) -> None:
        """Register its name as address."""
        self._hub.addresses[self._link, self._address] = (self._name, self._receive)

    def close(self) -> None:
        """Remove its address."""
        self._hub.addresses.pop((self._link, self._address), None)

    def send(self, frames: Frames) -> None:
        """Send one message."""
        hub, link, address = self._hub, self._link, self._address
        hub.network.send(self._name, "broker", lambda m: hub.arrive(link, address, m), list(frames))


class RouterAddresses:
    """The addresses that the broker's ROUTER gives to peers without an identity.

    Each process of the broker starts at a number of its own: if addresses recurred, the work of one
    peer would be expected of another.
    """

    def __init__(self, random: Random, life: Callable[[], int]) -> None:
        self._random, self._life_of_broker = random, life
        self.life = 0
        self._last = 0

    def has_restarted(self) -> bool:
        """Return whether the broker has started since the last address was given."""
        return self.life != self._life_of_broker()

    def give(self) -> bytes:
        """Return an address for a new connection."""
        if self.has_restarted():
            self.life = self._life_of_broker()
            self._last = self.first()
        self._last += 1
        return b"\0" + (self._last & 0xFFFFFFFF).to_bytes(4)

    def first(self) -> int:
        """Return the number that a new process starts at."""
        return self._random.getrandbits(32)


class UnnamedDealer(SimDealer):
    """A DEALER without an identity. It connects again when the broker has started anew."""

    def __init__(
        self, addresses: RouterAddresses, hub: SimHub, link: str, name: str, receive: Receive
    ) -> None:
        super().__init__(hub, link, name, receive)
        self._addresses = addresses
        self._life = -1

    def open(self) -> None:
        """Connect: the ROUTER gives an address."""
        self._address = self._addresses.give()
        self._life = self._addresses.life
        self._hub.addresses[self._link, self._address] = (self._name, self._receive)

    def close(self) -> None:
        """Remove its address."""
        self._hub.addresses.pop((self._link, self._address), None)

    def send(self, frames: Frames) -> None:
        """Send one message, over a new connection if the broker has started anew."""
        if self._addresses.has_restarted() or self._life != self._addresses.life:
            self.close()
            self.open()
        super().send(frames)


class SimRequester:
    """An NNG requester: each request has its own address and one answer."""

    def __init__(self, hub: SimHub, link: str, name: str, receive: Receive) -> None:
        self._hub, self._link, self._name, self._receive = hub, link, name, receive
        self._life = 0
        self._count = 0
        self._open: dict[bytes, tuple[bytes, bytes]] = {}

    def open(self) -> None:
        """Open a new connection."""
        self._life += 1
        text = f"{self._name} {self._life}".encode()
        self._connection = blake2b(text, digest_size=8).digest()

    def close(self) -> None:
        """Close the connection. The replier learns it, unless the network drops the message."""
        for ticket in list(self._open):
            self._withdraw(ticket)
        self._to_broker(self._connection, [])

    def send(self, frames: Frames) -> None:
        """Open a request; it replaces an open one with the same ticket."""
        ticket, message = bytes(frames[0]), bytes(frames[1])
        if ticket in self._open:
            if self._open[ticket][1] == message:
                return
            self._withdraw(ticket)
        self._count += 1
        address = self._connection + (0x8000_0000 | self._count).to_bytes(4, "big")
        self._open[ticket] = (address, message)
        self._hub.addresses[self._link, address] = (
            self._name,
            lambda answer: self._answered(ticket, address, answer),
        )
        self._ask(ticket, address)
        if len(frames) > 2:
            limit = int(frames[2]) / 1000
            self._hub.world.after(limit, self._answered, ticket, address, [])

    def _ask(self, ticket: bytes, address: bytes) -> None:
        """Send a request, and resend it while it is open."""
        if self._open.get(ticket, (b"",))[0] == address:
            self._to_broker(address, [self._open[ticket][1]])
            self._hub.world.after(RESEND_AFTER, self._ask, ticket, address)

    def _answered(self, ticket: bytes, address: bytes, answer: list[bytes]) -> None:
        if self._open.get(ticket, (b"",))[0] == address:
            self._withdraw(ticket)
            self._receive([ticket, *answer])

    def _withdraw(self, ticket: bytes) -> None:
        address, _ = self._open.pop(ticket)
        self._hub.addresses.pop((self._link, address), None)

    def _to_broker(self, address: bytes, frames: list[bytes]) -> None:
        hub, link = self._hub, self._link
        hub.network.send(self._name, "broker", lambda m: hub.arrive(link, address, m), frames)


class SimSubscriber:
    """A NATS connection: the first frame is the subject."""

    def __init__(self, hub: SimHub, link: str, name: str, receive: Receive) -> None:
        self._hub, self._link, self._name, self._receive = hub, link, name, receive
        self.subscriptions: tuple[str, ...] = ()

    def open(self) -> None:
        """Subscribe."""
        for subject in self.subscriptions:
            self._hub.subjects.append((self._link, subject, self._name, self._receive))

    def close(self) -> None:
        """Unsubscribe."""
        mine = (self._link, self._name)
        self._hub.subjects = [s for s in self._hub.subjects if (s[0], s[2]) != mine]

    def send(self, frames: Frames) -> None:
        """Publish one message."""
        hub, link, subject = self._hub, self._link, bytes(frames[0])
        hub.network.send(
            self._name, "broker", lambda m: hub.arrive(link, subject, m), list(frames[1:])
        )
