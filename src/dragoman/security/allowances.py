"""Limits of a principal's use of the broker, and the meter that enforces them.

Pure: time is an argument. Every limit is per principal, over all its keys and connections.
"""

from collections import OrderedDict
from dataclasses import fields
from typing import Final

from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, Principal
from dragoman.model.record import Kind, Record
from dragoman.model.value import value

#: A peer that is silent for longer does not count as connected, in seconds.
CONNECTED_FOR: Final = 60.0


@value
class Allowance:
    """Limits of one principal. None: no limit here; a more general allowance may set one."""

    #: Connected peers at the same time.
    connections: int | None = None
    #: Submissions, result requests, cancels and inputs in a second.
    requests_per_second: float | None = None
    #: Result requests in a second.
    results_per_second: float | None = None
    #: Its queued and running jobs.
    open_jobs: int | None = None
    #: Bytes in the bodies of those jobs.
    open_bytes: int | None = None

    def overridden_by(self, other: "Allowance") -> "Allowance":
        """Return these limits, replaced where the other allowance sets one."""
        names = [f.name for f in fields(Allowance)]
        new = {name: getattr(other, name) for name in names}
        return Allowance(**{n: getattr(self, n) if new[n] is None else new[n] for n in names})

    def tightened_by(self, other: "Allowance") -> "Allowance":
        """Return the smaller of both limits, for each of them."""
        names = [f.name for f in fields(Allowance)]
        both = {
            n: [x for x in (getattr(self, n), getattr(other, n)) if x is not None] for n in names
        }
        return Allowance(**{name: min(found, default=None) for name, found in both.items()})


UNLIMITED: Final = Allowance()
#: All peers without a key share these, unless `[limits.anonymous]` says otherwise.
ANONYMOUS_LIMITS: Final = Allowance(
    connections=200,
    requests_per_second=200,
    results_per_second=100,
    open_jobs=1000,
    open_bytes=256 * 1024 * 1024,
)


class Bucket:
    """A token bucket: `rate` a second, with a burst of one second's worth."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left = -1.0
        self._at = 0.0

    def take(self, rate: float, now: float) -> bool:
        """Take one token; tell whether there was one."""
        most = max(rate, 1.0)
        grown = most if self._left < 0 else self._left + rate * max(0.0, now - self._at)
        self._left, self._at = min(most, grown), now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class _Used:
    """What one principal uses now."""

    __slots__ = ("bytes", "jobs", "peers", "requests", "results")

    def __init__(self) -> None:
        self.jobs = 0
        self.bytes = 0
        self.requests = Bucket()
        self.results = Bucket()
        #: The last message time of each peer, oldest first.
        self.peers: OrderedDict[PeerId, float] = OrderedDict()


class Meter:
    """Counts what principals use. Each check returns the reason for a refusal, or an empty text."""

    def __init__(self) -> None:
        self._used: dict[Principal, _Used] = {}
        self._open: dict[JobId, tuple[Principal, int]] = {}

    def connect(self, principal: Principal, peer: PeerId, allowance: Allowance, now: float) -> str:
        """Count a peer of a principal as connected."""
        if allowance.connections is None:
            return ""
        peers = self._of(principal).peers
        if peer not in peers:
            while peers and now - next(iter(peers.values())) > CONNECTED_FOR:
                peers.popitem(last=False)
            if len(peers) >= allowance.connections:
                return f"{principal} has {len(peers)} connections already"
        peers[peer] = now
        peers.move_to_end(peer)
        return ""

    def forget_peer(self, principal: Principal, peer: PeerId) -> None:
        """Stop counting a peer that has left."""
        used = self._used.get(principal)
        if used is not None:
            used.peers.pop(peer, None)

    def request(self, principal: Principal, allowance: Allowance, now: float) -> str:
        """Count a request."""
        rate = allowance.requests_per_second
        if rate is None or self._of(principal).requests.take(rate, now):
            return ""
        return f"{principal} may make {rate:g} requests a second; retry later"

    def result(self, principal: Principal, allowance: Allowance, now: float) -> str:
        """Count a result request."""
        rate = allowance.results_per_second
        if rate is None or self._of(principal).results.take(rate, now):
            return ""
        return f"{principal} may ask for {rate:g} results a second; retry later"

    def submit(self, principal: Principal, allowance: Allowance, job: JobId, size: int) -> str:
        """Count a job; a repeated submission of an open job counts once."""
        if job in self._open:
            return ""
        used = self._of(principal)
        if allowance.open_jobs is not None and used.jobs >= allowance.open_jobs:
            return f"{used.jobs} jobs of {principal} are open, its limit; submit this one later"
        if allowance.open_bytes is not None and used.bytes + size > allowance.open_bytes:
            return f"{used.bytes} bytes of {principal} are open, near its limit; submit this later"
        self._open[job] = (principal, size)
        used.jobs += 1
        used.bytes += size
        return ""

    def observe(self, record: Record) -> None:
        """Stop counting a job that has ended or was refused."""
        # A conflict refuses a second job with the same id; the first one stays open.
        is_refused = record.kind == Kind.REFUSED and record.fault != FaultCode.CONFLICT
        if record.kind == Kind.ENDED or is_refused:
            found = self._open.pop(JobId(record.job), None)
            if found is not None:
                used = self._of(found[0])
                used.jobs -= 1
                used.bytes -= found[1]

    def open_jobs(self, principal: Principal) -> int:
        """Return how many jobs of a principal are open."""
        return self._of(principal).jobs

    def _of(self, principal: Principal) -> _Used:
        used = self._used.get(principal)
        if used is None:
            used = self._used[principal] = _Used()
        return used
