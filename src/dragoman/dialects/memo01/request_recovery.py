"""Recovery of requests and assignments of an earlier process, from its records.

Peers do not notice a restart: NNG resends open requests with the same request ID, and workers send
results of jobs from the old process. A job's id holds the fingerprint of its request. So both are
recognised, and no job runs twice because of a restart.
"""

from collections.abc import Callable, Iterable

from dragoman.dialects.memo01.requests import RequestKey
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, link_of
from dragoman.model.record import Kind, Record

#: Reads the body of the record at a ledger position.
LoadBody = Callable[[int], Body | None]


def job_id_for(key: RequestKey, unique: str) -> JobId:
    """Return a job id that holds the fingerprint of its request."""
    return JobId(f"{key[0].hex()}-{key[1].hex()}-{unique}")


def key_of_job(job: str) -> RequestKey | None:
    """Return the fingerprint of the request in a job id; None if there is none."""
    id_, _, rest = job.partition("-")
    try:
        return bytes.fromhex(id_), bytes.fromhex(rest.partition("-")[0])
    except ValueError:
        return None


class RecoveredRequests:
    """The requests and assignments of one link that are open or ended lately."""

    def __init__(self, link: str, records: Iterable[Record], since: float) -> None:
        self._link = link
        self._since = since
        #: Jobs of this link's clients that have not ended: their `submitted` records.
        self.open: dict[str, Record] = {}
        #: Jobs that succeeded after `since`, with the time.
        self.answered: dict[str, tuple[Record, float]] = {}
        self._held: dict[str, dict[int, Record]] = {}
        #: Ledger position of each worker's last result, to recognise a resend of it.
        self._results: dict[str, int] = {}
        steps: dict[str, Callable[[Record], None]] = {
            Kind.SUBMITTED: self._submitted,
            Kind.DISPATCHED: self._dispatched,
            Kind.REQUEUED: self._returned,
            Kind.FORWARDED: self._returned,
            Kind.GATHERED: self._returned,
            Kind.ENDED: self._ended,
            Kind.LATE: self._result,
            Kind.LEFT: self._left,
        }
        for record in records:
            step = steps.get(record.kind)
            if step is not None:
                step(record)

    def held(self) -> Iterable[Record]:
        """Return the `dispatched` records of jobs that this link's workers hold."""
        return [record for parts in self._held.values() for record in parts.values()]

    def last_result(self, peer: str) -> int | None:
        """Return the ledger position of a worker's last result."""
        return self._results.get(peer)

    def _submitted(self, record: Record) -> None:
        if link_of(PeerId(record.client)) == self._link and key_of_job(record.job) is not None:
            self.open[record.job] = record

    def _dispatched(self, record: Record) -> None:
        if link_of(PeerId(record.peer)) == self._link:
            self._held.setdefault(record.job, {})[record.part] = record

    def _result(self, record: Record) -> None:
        if record.nbytes and link_of(PeerId(record.peer)) == self._link:
            self._results[record.peer] = record.seq

    def _left(self, record: Record) -> None:
        self._results.pop(record.peer, None)

    def _returned(self, record: Record) -> None:
        self._result(record)
        self._held.get(record.job, {}).pop(record.part, None)

    def _ended(self, record: Record) -> None:
        self._result(record)
        self._held.pop(record.job, None)
        submitted = self.open.pop(record.job, None)
        if submitted is not None and record.state == "succeeded" and record.at >= self._since:
            self.answered[record.job] = (submitted, record.at)
