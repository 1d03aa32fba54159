"""The workers of a DCP link and what each of them holds.

A DCP reply carries the client and the metadata of its request and nothing else, so the broker has
to remember which job that was. Of several that look the same, the oldest is answered first.
"""

from collections import OrderedDict, deque
from typing import Final

from dragoman.dialects.dcp.wire import Tail, metadata_of
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.value import value

#: What a reply is recognised by.
Mark = tuple[bytes, tuple[bytes, ...]]
#: More than a worker will ever hold; beyond it the oldest is forgotten.
_MOST_HELD: Final = 100_000
#: Workers that are gone, but may still bring a late reply.
_MOST_PARTED: Final = 1_000


@value
class DcpAssignment:
    """One request with a worker."""

    job: JobId
    attempt: int
    service: ServiceName
    body: Body
    mark: Mark


class DcpWorker:
    """One registered worker."""

    def __init__(self, peer: PeerId) -> None:
        self.peer = peer
        self.service = b""
        #: It says and reads notes: it counts its own credit, can be told to stop, reports.
        self.reads_notes = False
        #: It says so when it is asked about a request that it does not have.
        self.answers_polls = False
        #: When it was given each job, or last asked about it; the longest ago first.
        self._asked_at: OrderedDict[JobId, float] = OrderedDict()
        #: Whether it may be given a request: "the broker SHOULD NOT give more" until it responds.
        self.is_free = True
        #: It said good-bye, so nobody asks it to register again.
        self.has_left = False
        self.seen_at = 0.0
        #: The question each job waits for the answer to, by the name its worker gave it.
        self.questions: dict[JobId, str] = {}
        self._held: dict[Mark, deque[DcpAssignment]] = {}
        self._ages: OrderedDict[JobId, DcpAssignment] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether it holds anything."""
        return bool(self._ages)

    def hold(self, held: DcpAssignment, now: float) -> None:
        """Remember what it was given; a new attempt of a job takes the place of the old one."""
        self.drop(held.job)
        self._held.setdefault(held.mark, deque()).append(held)
        self._ages[held.job] = held
        self._asked_at[held.job] = now
        if len(self._ages) > _MOST_HELD:
            self.drop(next(iter(self._ages)))

    def drop(self, job: JobId) -> None:
        """Forget a job."""
        held = self._ages.pop(job, None)
        self._asked_at.pop(job, None)
        self.questions.pop(job, None)
        if held is not None:
            alike = self._held[held.mark]
            alike.remove(held)
            if not alike:
                del self._held[held.mark]

    def find(self, client: bytes, tail: Tail) -> DcpAssignment | None:
        """Find what it answers: the oldest with this client and metadata.

        A worker that does not give the metadata back is understood while it has one request of
        that client only.
        """
        metadata = metadata_of(tail)
        alike = self._held.get((client, metadata))
        if alike:
            return alike[0]
        if metadata:
            # It gives back the metadata of something that it should not hold any more.
            return None
        of_client = [mark for mark in self._held if mark[0] == client]
        if len(of_client) == 1 and len(self._held[of_client[0]]) == 1:
            return self._held[of_client[0]][0]
        return None

    def overdue(self, before: float, now: float) -> list[DcpAssignment]:
        """Return what it was given, or last asked about, so long ago; it is asked now.

        Of several that look the same nobody could tell which one is meant.
        """
        found: list[DcpAssignment] = []
        while self._asked_at and next(iter(self._asked_at.values())) <= before:
            job = next(iter(self._asked_at))
            self._asked_at[job] = now
            self._asked_at.move_to_end(job)
            held = self._ages[job]
            if len(self._held[held.mark]) == 1:
                found.append(held)
        return found

    def holding(self, job: JobId) -> DcpAssignment | None:
        """Return what it holds of a job."""
        return self._ages.get(job)


class DcpWorkers:
    """All workers of a link by address, and the last ones that left with something in hand."""

    def __init__(self) -> None:
        self.present: dict[bytes, DcpWorker] = {}
        self._parted: OrderedDict[bytes, DcpWorker] = OrderedDict()

    def join(self, address: bytes, peer: PeerId) -> DcpWorker:
        """Return a worker that registers, with what it held before if it is known."""
        worker = self.present.get(address) or self._parted.pop(address, None) or DcpWorker(peer)
        self.present[address] = worker
        worker.has_left = False
        return worker

    def part(self, address: bytes) -> bool:
        """Let a worker go, and say whether it was here; remember what it held."""
        worker = self.present.pop(address, None)
        if worker is None:
            return False
        if worker.is_busy:
            self._parted[address] = worker
            if len(self._parted) > _MOST_PARTED:
                self._parted.popitem(last=False)
        return True

    def forget(self, address: bytes) -> None:
        """Forget all that was known of an address: somebody new has it."""
        self.present.pop(address, None)
        self._parted.pop(address, None)

    def speaker(self, address: bytes) -> DcpWorker | None:
        """Return the worker that speaks, also one that left with something in hand."""
        return self.present.get(address) or self._parted.get(address)


class Widths:
    """The width of the type frame each peer spoke last; the one not heard for longest goes."""

    def __init__(self, default: int, most: int) -> None:
        self._default = default
        self._most = most
        self._widths: OrderedDict[bytes, int] = OrderedDict()

    def hear(self, address: bytes, width: int) -> None:
        """Note how a peer speaks."""
        self._widths[address] = width
        self._widths.move_to_end(address)
        if len(self._widths) > self._most:
            self._widths.popitem(last=False)

    def of(self, address: bytes) -> int:
        """Return how to speak to a peer."""
        return self._widths.get(address, self._default)
