"""Results that may still come from workers that this process has lost or never knew.

A RESULT names no job, only its worker's ID. So the assignment of a lost worker, or of a worker of
an earlier process, is kept here by that ID. A late RESULT then still finds its job. The core
decides what happens to such a result.
"""

from typing import Final

from dragoman.core.effects import LinkPast
from dragoman.dialects.base import Address
from dragoman.dialects.memo01.request_recovery import LoadBody
from dragoman.dialects.memo01.requests import ID, has_same_id
from dragoman.dialects.memo01.workers import MemoWorker
from dragoman.model.names import JobId, PeerId, name_of
from dragoman.model.value import value

#: Most lost assignments kept; the oldest are dropped first.
_REMEMBERED: Final = 10_000


@value
class LostAssignment:
    """The last assignment of a worker that is no longer registered."""

    peer: PeerId
    job: JobId
    attempt: int
    #: Address of the request that the JOB answered; after a restart only its request ID, ...
    answered: Address | None = None
    #: ... or, if an older version recorded none, the payload of the worker's previous result.
    previous_payload: bytes | None = None
    #: Whether an earlier process gave it out: then the core still waits for this worker.
    is_recovered: bool = False

    def is_previous_result(self, address: Address, payload: bytes) -> bool:
        """Return whether a RESULT is the previous one, resent because the JOB never arrived.

        Payloads do not tell: many tasks return the same value each time.
        """
        if self.answered is not None:
            return has_same_id(self.answered, address)
        return payload == self.previous_payload


class LateResults:
    """The assignments of lost workers of one link, until their results come."""

    def __init__(self) -> None:
        #: By worker ID; at most one job each, and only jobs that reached their worker.
        self._assignments: dict[bytes, LostAssignment] = {}

    def restore(self, past: LinkPast, load_body: LoadBody) -> None:
        """Restore the assignments of an earlier process."""
        for found in past.work:
            work, seq = found.work, found.last_result_seq
            answered = Address(found.answers.to_bytes(ID)) if found.answers else None
            body = load_body(seq) if seq and not answered else None
            previous_payload = b"".join(body.parts) if body else None
            lost = LostAssignment(
                work.worker, work.job, work.attempt, answered, previous_payload, is_recovered=True
            )
            self._assignments[bytes.fromhex(name_of(work.worker))] = lost

    def expect(self, worker: MemoWorker) -> None:
        """Keep the assignment of a worker that is being dropped, if its JOB was sent."""
        if worker.job is None or worker.pending is not None:
            return
        self._assignments[worker.id] = LostAssignment(
            worker.peer, worker.job, worker.attempt, worker.last_request
        )
        if len(self._assignments) > _REMEMBERED:
            del self._assignments[next(iter(self._assignments))]

    def take(self, id_: bytes, address: Address, payload: bytes) -> LostAssignment | None:
        """Remove and return the assignment of a RESULT; None if it has none or is a resend."""
        lost = self._assignments.get(id_)
        if lost is None or lost.is_previous_result(address, payload):
            return None
        return self._assignments.pop(id_)

    def take_undelivered(self, id_: bytes) -> LostAssignment | None:
        """Remove and return an assignment of an earlier process whose JOB never arrived."""
        lost = self._assignments.get(id_)
        if lost is None or not lost.is_recovered:
            return None
        return self._assignments.pop(id_)
