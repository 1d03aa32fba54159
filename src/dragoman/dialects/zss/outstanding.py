"""The requests that each instance holds.

A reply counts only if its instance got a request with the same client and request id. So no service
can answer for another, and no client gets a reply that it did not ask for.
"""

from collections import OrderedDict, deque
from typing import Final

from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.value import value

#: Bound of the table. Requests stay after their end, for late replies; the oldest is dropped.
_MOST: Final = 200_000


@value
class OutstandingRequest:
    """One request at one instance."""

    worker: PeerId
    #: The client's name as the instance got it.
    alias: bytes
    rid: bytes
    job: JobId
    attempt: int
    service: ServiceName

    @property
    def mark(self) -> tuple[PeerId, bytes, bytes]:
        """The fields that match a reply to its request."""
        return self.worker, self.alias, self.rid


class OutstandingRequests:
    """All requests that instances hold."""

    def __init__(self) -> None:
        self._by_job: OrderedDict[tuple[PeerId, JobId], OutstandingRequest] = OrderedDict()
        #: The name of the question that each request waits to have answered.
        self.questions: dict[tuple[PeerId, JobId], str] = {}
        self._by_mark: dict[tuple[PeerId, bytes, bytes], deque[OutstandingRequest]] = {}
        #: By instance, when it got each job or was last polled about it; oldest first.
        self._polled_at: dict[PeerId, OrderedDict[JobId, float]] = {}

    def __len__(self) -> int:
        return len(self._by_job)

    def add(self, request: OutstandingRequest, now: float) -> None:
        """Add a request; a new attempt of a job replaces the old one."""
        self.drop(request.worker, request.job)
        self._by_job[request.worker, request.job] = request
        self._by_mark.setdefault(request.mark, deque()).append(request)
        self._polled_at.setdefault(request.worker, OrderedDict())[request.job] = now
        if len(self._by_job) > _MOST:
            self.drop(*next(iter(self._by_job)))

    def drop(self, worker: PeerId, job: JobId) -> None:
        """Forget a request."""
        request = self._by_job.pop((worker, job), None)
        self.questions.pop((worker, job), None)
        if request is not None:
            same_mark = self._by_mark[request.mark]
            same_mark.remove(request)
            if not same_mark:
                del self._by_mark[request.mark]
            polled_at = self._polled_at[worker]
            del polled_at[job]
            if not polled_at:
                del self._polled_at[worker]

    def overdue(self, worker: PeerId, before: float, now: float) -> list[OutstandingRequest]:
        """Return the requests not polled since `before`, and mark them as polled now.

        Requests with the same mark are left out: a poll cannot say which one it means.
        """
        found: list[OutstandingRequest] = []
        polled_at = self._polled_at.get(worker) or OrderedDict()
        while polled_at and next(iter(polled_at.values())) <= before:
            job = next(iter(polled_at))
            polled_at[job] = now
            polled_at.move_to_end(job)
            request = self._by_job[worker, job]
            if len(self._by_mark[request.mark]) == 1:
                found.append(request)
        return found

    def find(self, worker: PeerId, alias: bytes, rid: bytes) -> OutstandingRequest | None:
        """Return the oldest request with this mark."""
        same_mark = self._by_mark.get((worker, alias, rid))
        return same_mark[0] if same_mark else None

    def of_job(self, worker: PeerId, job: JobId) -> OutstandingRequest | None:
        """Return the request of a job at an instance."""
        return self._by_job.get((worker, job))
