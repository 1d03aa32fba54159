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
class Asked:
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


class Outstanding:
    """All requests that are with instances."""

    def __init__(self) -> None:
        self._by_job: OrderedDict[tuple[PeerId, JobId], Asked] = OrderedDict()
        #: The question each waits for the answer to, by the name its instance gave it.
        self.questions: dict[tuple[PeerId, JobId], str] = {}
        self._by_mark: dict[tuple[PeerId, bytes, bytes], deque[Asked]] = {}

    def __len__(self) -> int:
        return len(self._by_job)

    def add(self, asked: Asked) -> None:
        """Remember a request; a new attempt of a job takes the place of the old one."""
        self.drop(asked.worker, asked.job)
        self._by_job[asked.worker, asked.job] = asked
        self._by_mark.setdefault(asked.mark, deque()).append(asked)
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

    def find(self, worker: PeerId, alias: bytes, rid: bytes) -> Asked | None:
        """Return the oldest request that a reply with these marks can be the answer to."""
        alike = self._by_mark.get((worker, alias, rid))
        return alike[0] if alike else None

    def of_job(self, worker: PeerId, job: JobId) -> Asked | None:
        """Return the request of a job."""
        return self._by_job.get((worker, job))
