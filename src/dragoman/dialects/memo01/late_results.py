"""Results that may still come from workers which are not known here any more.

A RESULT has no job in it, only its worker's ID. So when a worker is given up in mid-job, or was
known to an earlier process only, what it held is remembered here by that ID; its result can then
still be put on record as the result of that job. What must not live here: what becomes of such a
result, which is the core's business.
"""

from typing import Final

from dragoman.dialects.base import Address
from dragoman.dialects.memo01.request_recovery import LoadBody, RecoveredRequests
from dragoman.dialects.memo01.requests import has_same_id
from dragoman.dialects.memo01.workers import MemoWorker
from dragoman.model.names import JobId, PeerId, name_of
from dragoman.model.value import value

#: Workers given up lately that are remembered; the oldest go first.
_REMEMBERED: Final = 10_000


@value
class LostAssignment:
    """What a worker that is no longer known here was given last."""

    peer: PeerId
    job: JobId
    attempt: int
    #: The request that the job answered, ...
    answered: Address | None = None
    #: ... or, where only records are left, the payload that its worker brought before.
    before: bytes | None = None

    def is_of_an_earlier_job(self, address: Address, payload: bytes) -> bool:
        """Whether a RESULT is the one before, sent again because the job never arrived."""
        if self.answered is not None:
            return has_same_id(self.answered, address)
        return payload == self.before


class LateResults:
    """What the unknown workers of one link held, each until its result came."""

    def __init__(self) -> None:
        #: By worker ID; at most one job each, and only jobs that reached their worker.
        self._held: dict[bytes, LostAssignment] = {}

    def restore(self, past: RecoveredRequests, load_body: LoadBody) -> None:
        """Know again what the workers of an earlier process held."""
        for held in past.held():
            peer, seq = PeerId(held.peer), past.last_result(held.peer)
            body = load_body(seq) if seq is not None else None
            before = b"".join(body.parts) if body else None
            known = LostAssignment(peer, JobId(held.job), held.attempt, before=before)
            self._held[bytes.fromhex(name_of(peer))] = known

    def expect(self, worker: MemoWorker) -> None:
        """Remember what a worker holds that is being given up, if it ever got it."""
        if worker.job is None or worker.pending is not None:
            return
        self._held[worker.id] = LostAssignment(
            worker.peer, worker.job, worker.attempt, worker.answered
        )
        if len(self._held) > _REMEMBERED:
            del self._held[next(iter(self._held))]

    def take(self, id_: bytes, address: Address, payload: bytes) -> LostAssignment | None:
        """Return what a RESULT is the result of, once; None when it is nobody's or an old one."""
        held = self._held.get(id_)
        if held is None or held.is_of_an_earlier_job(address, payload):
            return None
        return self._held.pop(id_)
