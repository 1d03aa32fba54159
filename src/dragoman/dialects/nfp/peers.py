"""Who is at the other end: identities, the reading each peer speaks, and what it declared.

A peer's id is its link and the text of its ZeroMQ identity. Identities that are no printable text
get a written form (`0x` and hex): good enough for a client, which never sees it, but not for a
worker, whose identity is its name.
"""

from collections import OrderedDict
from functools import lru_cache
from typing import Generic, TypeVar

from dragoman.dialects.base import Address, MalformedMessage
from dragoman.dialects.nfp.bodies import OpenBody
from dragoman.model.names import PeerId, ServiceName, WorkerName, name_of, peer_id, raw_of, text_of

K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V], Generic[K, V]):
    """A memory with a bound: what was put in longest ago is forgotten first."""

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def remember(self, key: K, thing: V) -> V:
        """Keep `thing`, at the cost of the oldest when there is no room."""
        self[key] = thing
        if len(self) > self.bound:
            self.popitem(last=False)
        return thing


class Peer:
    """One identity on the link."""

    __slots__ = ("address", "declared", "id", "is_binary", "name")

    def __init__(self, address: Address, id: PeerId) -> None:
        self.address = address
        self.id = id
        #: Its identity as printable text: what workers are told as the client's id.
        self.name = name_of(id)
        #: Whether it speaks the one-byte commands of the text; what it sent last decides.
        self.is_binary = False
        self.declared = OpenBody()

    @property
    def has_text_name(self) -> bool:
        """Whether its identity is printable text, so that it can be a worker's name."""
        return not self.name.startswith("0x")

    @property
    def takes_results(self) -> bool:
        """Whether results go to it unasked, instead of a notice that it may ask now.

        The text knows no such notice.
        """
        return self.declared.push or self.is_binary


class Peers:
    """All identities heard of, within a bound."""

    def __init__(self, link: str, bound: int) -> None:
        self.link = link
        self.bound = bound
        self._by_address: dict[Address, Peer] = {}
        #: The same peers, the longest known first.
        self._by_id: OrderedDict[PeerId, Peer] = OrderedDict()

    def heard(self, address: Address) -> Peer:
        """Return the peer at `address`, known from now on."""
        peer = self._by_address.get(address)
        if peer is None:
            peer = Peer(address, peer_id(self.link, text_of(address)))
            self._by_address[address] = self._by_id[peer.id] = peer
            if len(self._by_id) > self.bound:
                _, oldest = self._by_id.popitem(last=False)
                del self._by_address[oldest.address]
        return peer

    def of(self, id: PeerId) -> Peer:
        """Return a peer by its id; one that was not heard of yet speaks NorFab's reading."""
        return self._by_id.get(id) or Peer(raw_of(name_of(id)), id)

    def __len__(self) -> int:
        return len(self._by_id)


class NfpWorker:
    """A registered worker. It leaves this table when it disconnects or is dismissed."""

    __slots__ = ("beats_sent", "heard_at", "name", "peer", "service", "service_frame")

    def __init__(self, peer: Peer, service: bytes, now: float) -> None:
        self.peer = peer
        self.name = WorkerName(peer.name)
        self.service = ServiceName(service.decode())
        self.service_frame = service
        self.heard_at = now
        self.beats_sent = 0


@lru_cache(maxsize=4096)
def read_service(raw: bytes, longest: int) -> str:
    """Read a service name; there are few, and every message has one."""
    return read_name(raw, "service name", longest)


def read_name(raw: bytes, what: str, longest: int) -> str:
    """Read a job id or service name: printable, not empty, bounded. Raises `MalformedMessage`."""
    if not 0 < len(raw) <= longest:
        raise MalformedMessage(f"the {what} has {len(raw)} bytes, it may have 1 to {longest}")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise MalformedMessage(f"the {what} is not UTF-8") from None
    if not text.isprintable():
        raise MalformedMessage(f"the {what} is not printable")
    return text
