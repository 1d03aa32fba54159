"""The peers of an NFP link: identities, the variant each peer speaks, and its declarations.

A peer's id is its link and the text of its ZeroMQ identity. An identity that is not printable text
is written as `0x` and hex. A client may have such an identity, because it never sees it. A worker
may not, because its identity is its name.
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
    """A dictionary with a bound. The oldest entry is removed first."""

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def remember(self, key: K, thing: V) -> V:
        """Store `thing`. If the dictionary is full, remove the oldest entry."""
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
        #: Its identity as printable text. Workers see it as the client's id.
        self.name = name_of(id)
        #: Whether its last message used the one-byte commands of the text.
        self.is_binary = False
        self.declared = OpenBody()

    @property
    def has_text_name(self) -> bool:
        """Whether its identity is printable text, as a worker's name must be."""
        return not self.name.startswith("0x")

    @property
    def has_made_up_identity(self) -> bool:
        """Whether ZeroMQ made its identity up, because the peer has set none."""
        return len(self.address) == 5 and self.address[0] == 0

    @property
    def worker_name(self) -> WorkerName:
        """Its name as a worker. Without an identity of its own it gets a name from us."""
        name = f"worker-{self.address.hex()}" if self.has_made_up_identity else self.name
        return WorkerName(name)

    @property
    def takes_results(self) -> bool:
        """Whether results are pushed to it, instead of an event that announces them."""
        return bool(self.declared.push)

    @property
    def is_synchronous(self) -> bool:
        """Whether it gets exactly one reply to each request, and nothing else.

        The text's client is strictly synchronous and should use a REQ socket, which cannot read a
        second reply. NorFab's client is a DEALER that needs several.
        """
        return self.is_binary if self.declared.push is None else not self.declared.push

    @property
    def is_ours(self) -> bool:
        """Whether it is a peer of our SDK."""
        return self.declared.agent == "dragoman"


class Peers:
    """All known peers, within a bound."""

    def __init__(self, link: str, bound: int) -> None:
        self.link = link
        self.bound = bound
        self._by_address: dict[Address, Peer] = {}
        #: The same peers, oldest first.
        self._by_id: OrderedDict[PeerId, Peer] = OrderedDict()

    def touch(self, address: Address) -> Peer:
        """Return the peer at `address`; add it if it is new."""
        peer = self._by_address.get(address)
        if peer is None:
            peer = Peer(address, peer_id(self.link, text_of(address)))
            self._by_address[address] = self._by_id[peer.id] = peer
            if len(self._by_id) > self.bound:
                _, oldest = self._by_id.popitem(last=False)
                del self._by_address[oldest.address]
        return peer

    def of(self, id: PeerId) -> Peer:
        """Return a peer by its id. An unknown peer is assumed to speak NorFab's variant."""
        return self._by_id.get(id) or Peer(raw_of(name_of(id)), id)

    def __len__(self) -> int:
        return len(self._by_id)


class NfpWorker:
    """A registered worker, until it disconnects or is dismissed."""

    __slots__ = ("beats_sent", "credit", "heard_at", "name", "peer", "service", "service_frame")

    def __init__(self, peer: Peer, service: bytes, now: float) -> None:
        self.peer = peer
        self.name = peer.worker_name
        #: How many jobs it may hold now; grows with its answers. None: it declared its own.
        self.credit: int | None = None
        self.service = ServiceName(service.decode())
        self.service_frame = service
        self.heard_at = now
        self.beats_sent = 0


@lru_cache(maxsize=4096)
def read_service(raw: bytes, longest: int) -> str:
    """Decode a service name. Cached: every message has one, and there are few."""
    return read_name(raw, "service name", longest)


def read_name(raw: bytes, what: str, longest: int) -> str:
    """Decode a job id or service name: printable, not empty, bounded. Raises `MalformedMessage`."""
    if not 0 < len(raw) <= longest:
        raise MalformedMessage(f"the {what} has {len(raw)} bytes; allowed are 1 to {longest}")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise MalformedMessage(f"the {what} is not UTF-8") from None
    if not text.isprintable():
        raise MalformedMessage(f"the {what} is not printable")
    return text
