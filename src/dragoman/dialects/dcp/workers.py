"""The workers of a DCP link and the requests that each of them holds.

A DCP reply carries only the client and the metadata of its request, so the broker keeps the job. If
several requests look the same, a reply answers the oldest.
"""

from collections import OrderedDict, deque
from typing import Final

from dragoman.dialects.base import is_unnamed
from dragoman.dialects.dcp.notes import request_note
from dragoman.dialects.dcp.wire import Tail, metadata_of
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.value import value

#: What identifies a reply: client and metadata, or the job that the metadata name.
Mark = tuple[bytes, tuple[bytes, ...]]
#: Bound of one worker's assignments; the oldest is forgotten first.
_MOST_HELD: Final = 100_000
#: Bound of the workers that left and may still send a late reply.
_MOST_DEPARTED: Final = 10_000
#: A request that was sent less than this many seconds ago may not have reached its worker yet.
CROSSING: Final = 3.0


def mark_of(client: bytes, tail: Tail) -> Mark:
    """Return what identifies the replies to a request.

    A note that names the job is enough. Its other members may differ between two encodings of one
    request (the remaining time), and a restarted broker must recognise the replies to both.
    """
    note = request_note(tail) or {}
    job = note.get("job")
    if not isinstance(job, str):
        return client, metadata_of(tail)
    return client, (
        b"job",
        job.encode(errors="surrogatepass"),
        str(note.get("attempt", 0)).encode(),
    )


@value
class DcpAssignment:
    """One request that a worker holds."""

    job: JobId
    attempt: int
    service: ServiceName
    body: Body
    mark: Mark

    @property
    def metadata(self) -> Tail:
        """The metadata of the request, which its reply returns."""
        return metadata_of(self.body.parts)


class DcpWorker:
    """One registered worker."""

    def __init__(self, peer: PeerId) -> None:
        self.peer = peer
        self.service = b""
        #: It uses notes: it declares its credit, can stop a job, and reports.
        self.reads_notes = False
        #: It answers polls for requests that it does not have.
        self.answers_polls = False
        #: When it got each job, or was last polled for it; the oldest first.
        self._polled_at: OrderedDict[JobId, float] = OrderedDict()
        #: Whether it may get a request: "the broker SHOULD NOT give more" until it responds.
        self.is_free = True
        #: It unregistered itself, so the broker does not ask it to register again.
        self.has_left = False
        self.seen_at = 0.0
        #: The name of the open question of each job, as its worker gave it.
        self.questions: dict[JobId, str] = {}
        self._held: dict[Mark, deque[DcpAssignment]] = {}
        self._ages: OrderedDict[JobId, DcpAssignment] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether it holds a request."""
        return bool(self._ages)

    def hold(self, held: DcpAssignment, now: float) -> None:
        """Add an assignment. A new attempt of a job replaces the old one."""
        self.drop(held.job)
        self._held.setdefault(held.mark, deque()).append(held)
        self._ages[held.job] = held
        self._polled_at[held.job] = now
        if len(self._ages) > _MOST_HELD:
            self.drop(next(iter(self._ages)))

    def drop(self, job: JobId) -> None:
        """Forget a job."""
        held = self._ages.pop(job, None)
        self._polled_at.pop(job, None)
        self.questions.pop(job, None)
        if held is not None:
            alike = self._held[held.mark]
            alike.remove(held)
            if not alike:
                del self._held[held.mark]

    def find(self, client: bytes, tail: Tail) -> DcpAssignment | None:
        """Find the assignment of a reply: the oldest with this client and metadata.

        A reply without metadata is accepted if the worker holds only one request of that client.
        """
        alike = self._held.get(mark_of(client, tail))
        if alike:
            return alike[0]
        if metadata_of(tail):
            # This metadata belongs to a request that the worker no longer holds.
            return None
        of_client = [mark for mark in self._held if mark[0] == client]
        if len(of_client) == 1 and len(self._held[of_client[0]]) == 1:
            return self._held[of_client[0]][0]
        return None

    def find_exact(self, client: bytes, tail: Tail) -> DcpAssignment | None:
        """Find the oldest assignment with this client and metadata."""
        alike = self._held.get(mark_of(client, tail))
        return alike[0] if alike else None

    def oldest_of(self, client: bytes) -> DcpAssignment | None:
        """Return the oldest assignment of a client, whatever its metadata."""
        return next((held for held in self._ages.values() if held.mark[0] == client), None)

    def overdue(self, before: float, now: float) -> list[DcpAssignment]:
        """Return the assignments that got no poll since `before`, and mark them as polled now.

        Requests that look the same are left out: a poll could not tell them apart.
        """
        found: list[DcpAssignment] = []
        while self._polled_at and next(iter(self._polled_at.values())) <= before:
            job = next(iter(self._polled_at))
            self._polled_at[job] = now
            self._polled_at.move_to_end(job)
            held = self._ages[job]
            if len(self._held[held.mark]) == 1:
                found.append(held)
        return found

    def keep_only(self, jobs: frozenset[JobId], now: float) -> None:
        """Forget the assignments of all other jobs: the worker does not have them.

        A request that was sent a moment ago may have crossed its declaration, so it stays.
        """
        crossed = {job for job, at in self._polled_at.items() if now - at < CROSSING}
        for job in [job for job in self._ages if job not in jobs and job not in crossed]:
            self.drop(job)

    def holding(self, job: JobId) -> DcpAssignment | None:
        """Return the assignment of a job."""
        return self._ages.get(job)


class DcpWorkers:
    """All workers of a link by address, and the last ones that left while busy."""

    def __init__(self) -> None:
        self.present: dict[bytes, DcpWorker] = {}
        self._departed: OrderedDict[bytes, DcpWorker] = OrderedDict()

    def join(self, address: bytes, peer: PeerId) -> DcpWorker:
        """Return a worker that registers, with its earlier assignments if it is known."""
        worker = self.present.get(address) or self._departed.pop(address, None) or DcpWorker(peer)
        self.present[address] = worker
        worker.has_left = False
        return worker

    def restore(self, address: bytes, peer: PeerId) -> DcpWorker:
        """Return a worker that held requests of an earlier process and did not register yet."""
        known = self.present.get(address) or self._departed.get(address)
        worker = known or self._departed.setdefault(address, DcpWorker(peer))
        worker.is_free = False
        return worker

    def leave(self, address: bytes) -> bool:
        """Remove a worker and keep its assignments. Return whether it was registered."""
        worker = self.present.pop(address, None)
        if worker is None:
            return False
        if worker.is_busy:
            self._departed[address] = worker
            if len(self._departed) > _MOST_DEPARTED:
                self._departed.popitem(last=False)
        return True

    def find(self, address: bytes) -> DcpWorker | None:
        """Return the worker at an address, also one that left while busy."""
        return self.present.get(address) or self._departed.get(address)

    def find_unnamed(self, client: bytes, tail: Tail) -> tuple[DcpWorker, DcpAssignment] | None:
        """Find the one absent worker without an identity of its own that holds this request.

        Its transport made up the address, so the same worker has another one when it reconnects.
        """
        unnamed = (w for a, w in self._departed.items() if is_unnamed(a))
        found = [(w, held) for w in unnamed if (held := w.find_exact(client, tail))]
        return found[0] if len(found) == 1 else None


class Widths:
    """The width of each peer's last type frame; the least recently active is forgotten."""

    def __init__(self, default: int, most: int) -> None:
        self._default = default
        self._most = most
        self._widths: OrderedDict[bytes, int] = OrderedDict()

    def store(self, address: bytes, width: int) -> None:
        """Store the width of a peer."""
        self._widths[address] = width
        self._widths.move_to_end(address)
        if len(self._widths) > self._most:
            self._widths.popitem(last=False)

    def of(self, address: bytes) -> int:
        """Return the width for a peer."""
        return self._widths.get(address, self._default)
