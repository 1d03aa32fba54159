"""What a new process has to know of an old one's requests, read from the records.

Requesters do not notice a restart: NNG sends what was open again, under the same request ID, and
workers bring results of jobs that the old process gave them. A job's id carries the fingerprint of
its request, so both are recognised and nothing is run twice for a restart.
"""

from collections.abc import Callable, Iterable

from dragoman.dialects.memo01.requests import Key
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, link_of
from dragoman.model.record import Kind, Record

#: Reads the body that is stored beside the record at a position.
LoadBody = Callable[[int], Body | None]


def name_job(key: Key, unique: str) -> JobId:
    """Name the job of a request so that the request can be read from the name."""
    return JobId(f"{key[0].hex()}-{key[1].hex()}-{unique}")


def key_in(job: str) -> Key | None:
    """Return the fingerprint of the request that a job's name carries."""
    id_, _, rest = job.partition("-")
    try:
        return bytes.fromhex(id_), bytes.fromhex(rest.partition("-")[0])
    except ValueError:
        return None


class RecoveredRequests:
    """The requests and assignments of one link that the records leave open, or closed lately."""

    def __init__(self, link: str, records: Iterable[Record], since: float) -> None:
        self._link = link
        self._since = since
        #: Jobs of this link's clients that have not ended: their `submitted` records.
        self.open: dict[str, Record] = {}
        #: Those that succeeded since `since`, and when.
        self.answered: dict[str, tuple[Record, float]] = {}
        self._held: dict[str, dict[int, Record]] = {}
        #: Where the last result of each worker is: one that is sent again must not count again.
        self._results: dict[str, int] = {}
        steps: dict[str, Callable[[Record], None]] = {
            Kind.SUBMITTED: self._submitted,
            Kind.DISPATCHED: self._dispatched,
            Kind.REQUEUED: self._taken_back,
            Kind.FORWARDED: self._taken_back,
            Kind.GATHERED: self._taken_back,
            Kind.ENDED: self._ended,
            Kind.LATE: self._result,
            Kind.LEFT: self._left,
        }
        for record in records:
            step = steps.get(record.kind)
            if step is not None:
                step(record)

    def held(self) -> Iterable[Record]:
        """Return what this link's workers hold: their `dispatched` records."""
        return [record for parts in self._held.values() for record in parts.values()]

    def last_result(self, peer: str) -> int | None:
        """Return the position of the last result that a worker brought."""
        return self._results.get(peer)

    def _submitted(self, record: Record) -> None:
        if link_of(PeerId(record.client)) == self._link and key_in(record.job) is not None:
            self.open[record.job] = record

    def _dispatched(self, record: Record) -> None:
        if link_of(PeerId(record.peer)) == self._link:
            self._held.setdefault(record.job, {})[record.part] = record

    def _result(self, record: Record) -> None:
        if record.nbytes and link_of(PeerId(record.peer)) == self._link:
            self._results[record.peer] = record.seq

    def _left(self, record: Record) -> None:
        self._results.pop(record.peer, None)

    def _taken_back(self, record: Record) -> None:
        self._result(record)
        self._held.get(record.job, {}).pop(record.part, None)

    def _ended(self, record: Record) -> None:
        self._result(record)
        self._held.pop(record.job, None)
        submitted = self.open.pop(record.job, None)
        if submitted is not None and record.state == "succeeded" and record.at >= self._since:
            self.answered[record.job] = (submitted, record.at)
