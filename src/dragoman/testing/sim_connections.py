"""How a dialect's frames travel in a simulated world: on a connection, as requests, by subject.

A line stands for a peer's transport: it knows addresses and nothing of what is said.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Protocol

from dragoman.testing.network import Network
from dragoman.testing.world import World

Hear = Callable[[list[bytes]], None]
Arrive = Callable[[str, Any, Any], None]
#: An open request is sent again this often, as NNG does.
RESEND_AFTER: Final = 2.0


class SimHub:
    """What every line needs to know of its world."""

    def __init__(self, world: World, network: Network, arrive: Arrive) -> None:
        self.world = world
        self.network = network
        self.arrive = arrive
        #: Who hears what is sent to an address: (link, address) -> peer's name, how it hears.
        self.addresses: dict[tuple[str, bytes], tuple[str, Hear]] = {}
        #: Subjects and who hears them, for links where many may.
        self.subjects: list[tuple[str, str, str, Hear]] = []

    def find(self, link: str, address: bytes) -> tuple[str, Hear] | None:
        """Return who hears what is sent to an address."""
        found = self.addresses.get((link, bytes(address)))
        if found is None:
            found = self._subscriber(link, address)
        return found

    def _subscriber(self, link: str, address: bytes) -> tuple[str, Hear] | None:
        subject = bytes(address).decode(errors="replace")
        for on, pattern, name, hear in self.subjects:
            if on == link and _matches(pattern, subject):
                return name, partial(_hear_of, hear, subject.encode())
        return None


def _hear_of(hear: Hear, subject: bytes, frames: list[bytes]) -> None:
    hear([subject, *frames])


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
        """Connect, anew each time."""
        ...

    def close(self) -> None:
        """Let go; the other end may notice."""
        ...

    def send(self, frames: Any) -> None:
        """Send one message."""
        ...


class SimDealer:
    """A ZeroMQ DEALER: one address, its name."""

    def __init__(self, place: SimHub, link: str, name: str, hear: Hear) -> None:
        self._place, self._link, self._name, self._hear = place, link, name, hear

    def open(self) -> None:
        """Be there under its name."""
        self._place.addresses[self._link, self._name.encode()] = (self._name, self._hear)

    def close(self) -> None:
        """Be gone."""
        self._place.addresses.pop((self._link, self._name.encode()), None)

    def send(self, frames: Any) -> None:
        """Send one message."""
        place, link, address = self._place, self._link, self._name.encode()
        place.network.send(
            self._name, "broker", lambda m: place.arrive(link, address, m), list(frames)
        )


class SimRequester:
    """An NNG requester: each request has an address of its own and one answer."""

    def __init__(self, place: SimHub, link: str, name: str, hear: Hear) -> None:
        self._place, self._link, self._name, self._hear = place, link, name, hear
        self._life = 0
        self._count = 0
        self._open: dict[bytes, tuple[bytes, bytes]] = {}

    def open(self) -> None:
        """Be a new connection."""
        self._life += 1
        text = f"{self._name} {self._life}".encode()
        self._connection = blake2b(text, digest_size=8).digest()

    def close(self) -> None:
        """End the connection; the replier hears of that, unless the network keeps it back."""
        for ticket in list(self._open):
            self._withdraw(ticket)
        self._to_broker(self._connection, [])

    def send(self, frames: Any) -> None:
        """Open a request; one that is open under the same ticket is given up for it."""
        ticket, message = bytes(frames[0]), bytes(frames[1])
        if ticket in self._open:
            if self._open[ticket][1] == message:
                return
            self._withdraw(ticket)
        self._count += 1
        address = self._connection + (0x8000_0000 | self._count).to_bytes(4, "big")
        self._open[ticket] = (address, message)
        self._place.addresses[self._link, address] = (
            self._name,
            lambda answer: self._answered(ticket, address, answer),
        )
        self._ask(ticket, address)
        if len(frames) > 2:
            limit = int(frames[2]) / 1000
            self._place.world.after(limit, self._answered, ticket, address, [])

    def _ask(self, ticket: bytes, address: bytes) -> None:
        """Send a request, again and again while it is open."""
        if self._open.get(ticket, (b"",))[0] == address:
            self._to_broker(address, [self._open[ticket][1]])
            self._place.world.after(RESEND_AFTER, self._ask, ticket, address)

    def _answered(self, ticket: bytes, address: bytes, answer: list[bytes]) -> None:
        if self._open.get(ticket, (b"",))[0] == address:
            self._withdraw(ticket)
            self._hear([ticket, *answer])

    def _withdraw(self, ticket: bytes) -> None:
        address, _ = self._open.pop(ticket)
        self._place.addresses.pop((self._link, address), None)

    def _to_broker(self, address: bytes, frames: list[bytes]) -> None:
        place, link = self._place, self._link
        place.network.send(self._name, "broker", lambda m: place.arrive(link, address, m), frames)


class SimSubscriber:
    """A NATS connection: frames begin with the subject they are sent to or came by."""

    def __init__(self, place: SimHub, link: str, name: str, hear: Hear) -> None:
        self._place, self._link, self._name, self._hear = place, link, name, hear
        self.subscriptions: tuple[str, ...] = ()

    def open(self) -> None:
        """Subscribe."""
        for subject in self.subscriptions:
            self._place.subjects.append((self._link, subject, self._name, self._hear))

    def close(self) -> None:
        """Unsubscribe."""
        mine = (self._link, self._name)
        self._place.subjects = [s for s in self._place.subjects if (s[0], s[2]) != mine]

    def send(self, frames: Any) -> None:
        """Publish one message."""
        place, link, subject = self._place, self._link, bytes(frames[0])
        place.network.send(
            self._name, "broker", lambda m: place.arrive(link, subject, m), list(frames[1:])
        )
