"""The clients' requests, open or answered lately, and how a resend is recognised.

NNG resends an unanswered request on a timer and after every reconnect, with the same request ID and
the same bytes. A resend is the same job while the request is open, and for a window after its
answer, on any connection: the answer may be lost with a connection that broke unnoticed. NNG starts
its IDs at random, so two requesters hardly ever share one.

A request whose job failed is forgotten at once: in memo01, clients retry by resending.
"""

from collections import deque
from hashlib import blake2b
from typing import Final

from dragoman.dialects.base import Address
from dragoman.model.names import JobId, PeerId

#: An address is a connection, then the SP backtrace; its last 4 bytes are the request ID.
CONNECTION: Final = 8
ID: Final = 4

RequestKey = tuple[bytes, bytes]


def connection_of(address: Address) -> bytes:
    """Return the connection an address is on."""
    return address[:CONNECTION]


def has_same_id(one: Address, other: Address) -> bool:
    """Return whether two addresses have the same request ID, perhaps on two connections."""
    return one[-ID:] == other[-ID:]


def number_of(address: Address) -> int:
    """Return the request ID of an address; it is never 0, because its top bit is set."""
    return int.from_bytes(address[-ID:])


def key_of(address: Address, message: bytes) -> RequestKey:
    """Return the fingerprint of a request: its ID and a hash of its bytes."""
    return address[-ID:], blake2b(message, digest_size=8).digest()


class MemoRequest:
    """One client's request and the addresses that wait for its answer."""

    __slots__ = ("addresses", "client", "forget_at", "is_tagged", "job", "key", "timeout_ms")

    def __init__(
        self, key: RequestKey, job: JobId, client: PeerId, timeout_ms: int, is_tagged: bool
    ) -> None:
        self.key = key
        self.job = job
        self.client = client
        self.timeout_ms = timeout_ms
        #: Whether the payload has the CBOR tag; then the answer may have it too.
        self.is_tagged = is_tagged
        #: Where the answer goes: one address per connection that sent the request.
        self.addresses: list[Address] = []
        #: None while it is open.
        self.forget_at: float | None = None


class MemoRequests:
    """All requests of one link that are open or were answered lately."""

    def __init__(self, window: float, remembered: int) -> None:
        self._window = window
        self._remembered = remembered
        self._by_key: dict[RequestKey, MemoRequest] = {}
        self._by_job: dict[JobId, MemoRequest] = {}
        #: Answered requests, oldest first.
        self._answered: deque[MemoRequest] = deque()

    def __len__(self) -> int:
        return len(self._by_job)

    def open(self, request: MemoRequest, *addresses: Address) -> None:
        """Add a request; one of an earlier process has no address yet."""
        request.addresses.extend(addresses)
        self._by_key[request.key] = request
        self._by_job[request.job] = request

    def find_resent(self, key: RequestKey, now: float) -> MemoRequest | None:
        """Return the request with this fingerprint, unless its window is over."""
        found = self._by_key.get(key)
        if found is None or found.forget_at is None or found.forget_at > now:
            return found
        self.forget(found)
        return None

    def of_key(self, key: RequestKey) -> MemoRequest | None:
        """Return the request with this fingerprint, open or answered."""
        return self._by_key.get(key)

    def of_job(self, job: JobId) -> MemoRequest | None:
        """Return the request of a job."""
        return self._by_job.get(job)

    def answered(self, request: MemoRequest, now: float) -> None:
        """Keep an answered request for the window; forget those beyond the bounds."""
        if request.forget_at is None:
            self._answered.append(request)
        request.forget_at = now + self._window
        self._forget_old(now)

    def _forget_old(self, now: float) -> None:
        kept = self._answered
        while kept and (len(kept) > self._remembered or (kept[0].forget_at or 0) <= now):
            self.forget(kept.popleft())

    def forget(self, request: MemoRequest) -> None:
        """Forget a request."""
        self._by_job.pop(request.job, None)
        if self._by_key.get(request.key) is request:
            del self._by_key[request.key]
