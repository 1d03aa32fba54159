"""The clients' requests: which are open, which were answered lately, and what a resend is.

NNG sends an unanswered request again, on a timer and after every reconnect, with the same request
ID and the same bytes. Such a resend is the same job while the request is open, and for a window
after its answer, on whatever connection it comes: the answer may have been lost with a connection
whose end nobody has noticed. (NNG begins its IDs at random, so requesters do not share them.)

A request whose job failed is forgotten at once: by the text, resending is how clients try again.
"""

from collections import deque
from hashlib import blake2b
from typing import Final

from dragoman.dialects.base import Address
from dragoman.model.names import JobId, PeerId

#: An address is a connection, then the words of the request's way; the last one is its ID.
CONNECTION: Final = 8
ID: Final = 4

Key = tuple[bytes, bytes]


def connection_of(address: Address) -> bytes:
    """Return the connection an address is on."""
    return address[:CONNECTION]


def has_same_id(one: Address, other: Address) -> bool:
    """Whether two addresses are of one request, perhaps on two connections."""
    return one[-ID:] == other[-ID:]


def key_of(address: Address, message: bytes) -> Key:
    """Fingerprint a request: its ID and all its bytes."""
    return address[-ID:], blake2b(message, digest_size=8).digest()


class MemoRequest:
    """One client's request and everybody who waits for its answer."""

    __slots__ = ("addresses", "client", "forget_at", "is_tagged", "job", "key", "timeout_ms")

    def __init__(
        self, key: Key, job: JobId, client: PeerId, timeout_ms: int, is_tagged: bool
    ) -> None:
        self.key = key
        self.job = job
        self.client = client
        self.timeout_ms = timeout_ms
        #: Whether the payload was a dressed call, so that the answer may be dressed as well.
        self.is_tagged = is_tagged
        #: Where the answer goes: once for each connection that asked.
        self.addresses: list[Address] = []
        #: None while it is open.
        self.forget_at: float | None = None


class MemoRequests:
    """All requests of one link that are open or were answered lately."""

    def __init__(self, window: float, remembered: int) -> None:
        self._window = window
        self._remembered = remembered
        self._by_key: dict[Key, MemoRequest] = {}
        self._by_job: dict[JobId, MemoRequest] = {}
        #: Answered ones, oldest first.
        self._answered: deque[MemoRequest] = deque()

    def __len__(self) -> int:
        return len(self._by_job)

    def open(self, request: MemoRequest, *addresses: Address) -> None:
        """Remember a new request; one from before a restart has no address yet."""
        request.addresses.extend(addresses)
        self._by_key[request.key] = request
        self._by_job[request.job] = request

    def find_resent(self, key: Key, now: float) -> MemoRequest | None:
        """Return the request that this one repeats, if any."""
        found = self._by_key.get(key)
        if found is None or found.forget_at is None or found.forget_at > now:
            return found
        self.forget(found)
        return None

    def of_key(self, key: Key) -> MemoRequest | None:
        """Return the request with this fingerprint, open or not."""
        return self._by_key.get(key)

    def of_job(self, job: JobId) -> MemoRequest | None:
        """Return the request that a job came from."""
        return self._by_job.get(job)

    def answered(self, request: MemoRequest, now: float) -> None:
        """Keep an answered request for the window, and let go of those beyond the bounds."""
        if request.forget_at is None:
            self._answered.append(request)
        request.forget_at = now + self._window
        self._forget_old(now)

    def _forget_old(self, now: float) -> None:
        kept = self._answered
        while kept and (len(kept) > self._remembered or (kept[0].forget_at or 0) <= now):
            self.forget(kept.popleft())

    def forget(self, request: MemoRequest) -> None:
        """Let go of a request."""
        self._by_job.pop(request.job, None)
        if self._by_key.get(request.key) is request:
            del self._by_key[request.key]
