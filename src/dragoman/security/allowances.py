"""How much of the broker one principal may have, and the meter that says when it is too much.

Pure: time comes in. Every bound is per principal, over all of its keys and connections.
"""

from collections import OrderedDict
from dataclasses import fields
from typing import Final

from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, Principal
from dragoman.model.record import Kind, Record
from dragoman.model.value import value

#: A peer that said nothing for so long is not counted as connected, in seconds.
CONNECTED_FOR: Final = 60.0


@value
class Allowance:
    """Bounds of one principal; None: none, or what a more general one says."""

    #: Peers that speak for it at the same time.
    connections: int | None = None
    #: Requests of its clients (submissions, questions, cancels, input) in a second.
    requests_per_second: float | None = None
    #: Results it may ask for in a second.
    results_per_second: float | None = None
    #: Jobs of its own that are queued or run.
    open_jobs: int | None = None
    #: Bytes in the bodies of those jobs.
    open_bytes: int | None = None

    def overridden_by(self, other: "Allowance") -> "Allowance":
        """Return these bounds with what another one says in their place."""
        names = [f.name for f in fields(Allowance)]
        said = {name: getattr(other, name) for name in names}
        return Allowance(**{n: getattr(self, n) if said[n] is None else said[n] for n in names})


UNLIMITED: Final = Allowance()


class Bucket:
    """Lets so many through in a second, and a second's worth at once."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left = -1.0
        self._at = 0.0

    def take(self, rate: float, now: float) -> bool:
        """Take one, if there is one."""
        most = max(rate, 1.0)
        grown = most if self._left < 0 else self._left + rate * max(0.0, now - self._at)
        self._left, self._at = min(most, grown), now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class _Used:
    """What one principal has of the broker now."""

    __slots__ = ("bytes", "jobs", "peers", "requests", "results")

    def __init__(self) -> None:
        self.jobs = 0
        self.bytes = 0
        self.requests = Bucket()
        self.results = Bucket()
        #: When each of its peers was heard last, the longest silent first.
        self.peers: OrderedDict[PeerId, float] = OrderedDict()


class Meter:
    """Counts what principals use. Each method returns why not; empty text if it may be."""

    def __init__(self) -> None:
        self._used: dict[Principal, _Used] = {}
        self._open: dict[JobId, tuple[Principal, int]] = {}

    def hear(self, principal: Principal, peer: PeerId, allowance: Allowance, now: float) -> str:
        """Count a peer that speaks for a principal."""
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
        """Count a peer no more that has left."""
        used = self._used.get(principal)
        if used is not None:
            used.peers.pop(peer, None)

    def request(self, principal: Principal, allowance: Allowance, now: float) -> str:
        """Count a request."""
        rate = allowance.requests_per_second
        if rate is None or self._of(principal).requests.take(rate, now):
            return ""
        return f"{principal} may make {rate:g} requests a second; make this one later"

    def result(self, principal: Principal, allowance: Allowance, now: float) -> str:
        """Count a question for a result."""
        rate = allowance.results_per_second
        if rate is None or self._of(principal).results.take(rate, now):
            return ""
        return f"{principal} may ask for {rate:g} results a second; ask for this one later"

    def submit(self, principal: Principal, allowance: Allowance, job: JobId, size: int) -> str:
        """Count a job; one that is open already is counted once."""
        if job in self._open:
            return ""
        used = self._of(principal)
        if allowance.open_jobs is not None and used.jobs >= allowance.open_jobs:
            return f"{used.jobs} jobs of {principal} are open already; submit this one later"
        if allowance.open_bytes is not None and used.bytes + size > allowance.open_bytes:
            return f"{used.bytes} bytes of {principal} are open already; submit this one later"
        self._open[job] = (principal, size)
        used.jobs += 1
        used.bytes += size
        return ""

    def saw(self, record: Record) -> None:
        """Count a job no more that has ended or was refused."""
        # A conflict refuses a second job of that id; the first is as open as before.
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
