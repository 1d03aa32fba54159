"""Which requests are with which instances.

A reply counts only if its instance was asked exactly that: same client, same request id. So no
service can answer for another, and no client can be sent what it did not ask for.
"""

from collections import OrderedDict, deque
from typing import Final

from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.value import value

#: Requests remembered beyond their end, for late replies; the oldest is forgotten.
_MOST: Final = 200_000


@value
class OutstandingRequest:
    """One request with one instance."""

    worker: PeerId
    #: The client as the instance knows it.
    alias: bytes
    rid: bytes
    job: JobId
    attempt: int
    service: ServiceName

    @property
    def mark(self) -> tuple[PeerId, bytes, bytes]:
        """What a reply is recognised by."""
        return self.worker, self.alias, self.rid


class OutstandingRequests:
    """All requests that are with instances."""

    def __init__(self) -> None:
        self._by_job: OrderedDict[tuple[PeerId, JobId], OutstandingRequest] = OrderedDict()
        #: The question each waits for the answer to, by the name its instance gave it.
        self.questions: dict[tuple[PeerId, JobId], str] = {}
        self._by_mark: dict[tuple[PeerId, bytes, bytes], deque[OutstandingRequest]] = {}
        #: When each instance was given each job, or last asked about it; the longest ago first.
        self._asked_at: dict[PeerId, OrderedDict[JobId, float]] = {}

    def __len__(self) -> int:
        return len(self._by_job)

    def add(self, asked: OutstandingRequest, now: float) -> None:
        """Remember a request; a new attempt of a job takes the place of the old one."""
        self.drop(asked.worker, asked.job)
        self._by_job[asked.worker, asked.job] = asked
        self._by_mark.setdefault(asked.mark, deque()).append(asked)
        self._asked_at.setdefault(asked.worker, OrderedDict())[asked.job] = now
        if len(self._by_job) > _MOST:
            self.drop(*next(iter(self._by_job)))

    def drop(self, worker: PeerId, job: JobId) -> None:
        """Forget a request."""
        asked = self._by_job.pop((worker, job), None)
        self.questions.pop((worker, job), None)
        if asked is not None:
            alike = self._by_mark[asked.mark]
            alike.remove(asked)
            if not alike:
                del self._by_mark[asked.mark]
            of_worker = self._asked_at[worker]
            del of_worker[job]
            if not of_worker:
                del self._asked_at[worker]

    def overdue(self, worker: PeerId, before: float, now: float) -> list[OutstandingRequest]:
        """Return what an instance was given, or last asked about, so long ago; it is asked now.

        Of several that look the same nobody could tell which one is meant.
        """
        found: list[OutstandingRequest] = []
        of_worker = self._asked_at.get(worker) or OrderedDict()
        while of_worker and next(iter(of_worker.values())) <= before:
            job = next(iter(of_worker))
            of_worker[job] = now
            of_worker.move_to_end(job)
            asked = self._by_job[worker, job]
            if len(self._by_mark[asked.mark]) == 1:
                found.append(asked)
        return found

    def find(self, worker: PeerId, alias: bytes, rid: bytes) -> OutstandingRequest | None:
        """Return the oldest request that a reply with these marks can be the answer to."""
        alike = self._by_mark.get((worker, alias, rid))
        return alike[0] if alike else None

    def of_job(self, worker: PeerId, job: JobId) -> OutstandingRequest | None:
        """Return the request of a job."""
        return self._by_job.get((worker, job))
