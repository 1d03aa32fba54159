"""A snapshot of the fold: a store as plain rows, and back.

`read_snapshot(write_snapshot(store))` is the same store. Rows hold lists, dicts, text and numbers
only, so any codec can carry them: a file, a stream, another process. What is not recorded (queues,
timers, bodies) is not in a snapshot either.

Texts that many jobs share (services, clients, tasks) stand once, in a table; rows hold positions in
it. So a restored store shares them, too.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final

from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job, JobPart
from dragoman.core.queue_state import QueueState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.target import Target, parse_target
from dragoman.model.terms import Terms, read_terms, terms_text

#: Raise it when a record means something else to the fold, or when rows change. A snapshot with
#: another number is ignored, and all records are replayed.
FOLD_VERSION: Final = 10
#: Jobs in one row: enough to be fast, few enough to be read piece by piece.
_BLOCK: Final = 2000

#: One row: a list or dict of plain values.
Row = Any


class SharedTexts:
    """A table of texts that grows while rows are written."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._new: list[str] = []

    def at(self, text: str) -> int:
        """Return the position of a text; add it if it is new."""
        found = self._positions.get(text)
        if found is None:
            found = self._positions[text] = len(self._positions)
            self._new.append(text)
        return found

    def take_new(self) -> list[str]:
        """Return the texts that were added since the last call."""
        new, self._new = self._new, []
        return new


def write_snapshot(store: JobStore) -> Iterator[Row]:
    """Yield the rows of a store: one of totals, blocks of jobs, one of their order."""
    yield {
        "fold": FOLD_VERSION,
        "last_seq": store.last_seq,
        "last_at": store.last_at,
        "open_jobs": store.open_jobs,
        "counts": dict(store.counts),
        "sessions": dict(store.sessions),
        "graces": dict(store.graces),
        "joins": [[peer, *join] for peer, join in store.joins.items()],
        "started_seq": store.started_seq,
        "peer_states": dict(store.peer_states),
        "results": dict(store.results),
        "queue": store.queue.rows(),
        "keys": [[who, key, job] for (who, key), job in store.keys.items()],
    }
    # A finished job may have given its id to a newer one; it stands after the others.
    replaced = [job for job in store.finished if store.jobs.get(job.id) is not job]
    jobs, texts = chain(store.jobs.values(), replaced), SharedTexts()
    while block := [_write_job(job, texts) for job in islice(jobs, _BLOCK)]:
        yield [texts.take_new(), block]
    yield _order(store, replaced)


def _order(store: JobStore, replaced: list[Job]) -> Row:
    """Return which jobs are finished, and which answer for others, by their position."""
    positions = {id(job): n for n, job in enumerate(chain(store.jobs.values(), replaced))}
    return {
        "ids": len(store.jobs),
        "finished": [positions[id(job)] for job in store.finished],
        "memo": [positions[id(job)] for job in store.memo.values()],
    }


def _write_job(job: Job, texts: SharedTexts) -> Row:
    at = texts.at
    return [
        job.id,
        at(job.service),
        at(job.client),
        at(job.task),
        at(str(job.target)),
        at(terms_text(job.terms)),
        at(job.principal),
        at(job.dialect),
        job.key,
        job.digest,
        job.submitted_at,
        job.deadline_at,
        job.submit_seq,
        job.nbytes,
        job.parent,
        job.position,
        None if _is_new(job) else _write_progress(job, texts),
    ]


def _is_new(job: Job) -> bool:
    """Tell whether nothing but the submission is recorded of a job with one part."""
    if len(job.parts) != 1 or job.state is not JobState.QUEUED:
        return False
    part = job.parts[0]
    return (
        not (part.attempt or part.bound or part.refusals)
        and not (job.hops or job.has_moved or job.cancel_asked_at or job.aliases)
        and job.client_job_id == job.id
    )


def _write_progress(job: Job, texts: SharedTexts) -> Row:
    return [
        job.client_job_id,
        list(job.aliases),
        texts.at(job.state),
        _write_fault(job.fault),
        job.ended_at,
        job.cancel_asked_at,
        job.forgotten_at,
        job.hops,
        job.has_moved,
        [_write_part(part, texts) for part in job.parts],
    ]


def _write_part(part: JobPart, texts: SharedTexts) -> Row:
    at = texts.at
    return [
        None if part.bound is None else at(part.bound),
        at(part.state),
        part.attempt,
        part.returned,
        at(part.worker),
        at(part.peer),
        _write_fault(part.fault),
        part.result_seq,
        part.dispatched_at,
        part.dispatch_seq,
        part.accept_seq,
        part.is_waiting_for_input,
        part.refusals,
        at(part.service),
        at(str(part.target)),
        at(part.task),
        part.request_seq,
        part.nbytes,
        part.failures,
        part.retry_at,
        _write_fault(part.setback),
        part.answers,
    ]


def _write_fault(fault: Fault | None) -> Row:
    return None if fault is None else [str(fault.code), fault.message]


def read_snapshot(rows: Iterable[Row]) -> JobStore:
    """Build the store that `write_snapshot` was given. Raises ValueError if rows do not fit."""
    try:
        return _read(iter(rows))
    except (LookupError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"the rows are not a snapshot: {error!r}") from error


def _read(rows: Iterator[Row]) -> JobStore:
    totals = next(rows)
    if totals["fold"] != FOLD_VERSION:
        raise ValueError(f"it is of fold version {totals['fold']}; this is {FOLD_VERSION}")
    store, reader, order = JobStore(), JobReader(), None
    jobs: list[Job] = []
    for row in rows:
        if isinstance(row, dict):
            order = row
            break
        jobs += reader.read_block(*row)
    if order is None:
        raise ValueError("the row of order is missing")
    _fill_totals(store, totals)
    _fill_jobs(store, jobs, order)
    return store


def _fill_totals(store: JobStore, totals: Row) -> None:
    store.last_seq, store.last_at = totals["last_seq"], totals["last_at"]
    store.open_jobs = totals["open_jobs"]
    store.counts = Counter(totals["counts"])
    store.sessions, store.graces = totals["sessions"], totals["graces"]
    store.joins = {peer: (seq, principal) for peer, seq, principal in totals["joins"]}
    store.started_seq = totals["started_seq"]
    store.peer_states, store.results = totals["peer_states"], totals["results"]
    store.queue = QueueState.of_rows(totals["queue"])
    store.keys = {(who, key): job for who, key, job in totals["keys"]}


def _fill_jobs(store: JobStore, jobs: list[Job], order: Row) -> None:
    store.jobs.update((job.id, job) for job in islice(jobs, order["ids"]))
    for job in store.jobs.values():
        for alias in job.aliases:
            store.aliases[alias] = job.id
    store.finished = deque(jobs[n] for n in order["finished"])
    store.families.restore(store.finished)
    store.memo = {(jobs[n].service, jobs[n].digest): jobs[n] for n in order["memo"]}


class JobReader:
    """Reads blocks of jobs; shared texts, targets and terms are made once."""

    def __init__(self) -> None:
        self._texts: list[Any] = []
        self._targets: dict[int, Target] = {}
        self._terms: dict[int, Terms] = {}

    def read_block(self, texts: list[str], rows: list[Row]) -> list[Job]:
        """Return the jobs of a block."""
        self._texts += texts
        return [self._job(*row) for row in rows]

    def _job(
        self,
        id_: str,
        service: int,
        client: int,
        task: int,
        target: int,
        terms: int,
        principal: int,
        dialect: int,
        key: str,
        digest: str,
        at: float,
        deadline_at: float,
        seq: int,
        nbytes: int,
        parent: str,
        position: int,
        progress: Row,
    ) -> Job:
        texts = self._texts
        submitted = Record(
            seq,
            at,
            Kind.SUBMITTED,
            id_,
            service=texts[service],
            task=texts[task],
            client=texts[client],
            principal=texts[principal],
            dialect=texts[dialect],
            nbytes=nbytes,
            digest=digest,
            key=key,
            deadline_at=deadline_at,
            parent=parent,
            position=position,
        )
        job = Job(submitted, self._target(target), self._terms_at(terms), None)
        if progress is None:
            job.parts = [JobPart(job, 0, None)]
        else:
            self._progress(job, *progress)
        return job

    def _progress(
        self,
        job: Job,
        client_job_id: JobId,
        aliases: list[JobId],
        state: int,
        fault: Row,
        ended_at: float,
        cancel_asked_at: float,
        forgotten_at: float,
        hops: int,
        has_moved: bool,
        parts: list[Row],
    ) -> None:
        job.client_job_id, job.aliases = client_job_id, tuple(aliases)
        job.state, job.fault = JobState(self._texts[state]), _read_fault(fault)
        job.ended_at, job.cancel_asked_at = ended_at, cancel_asked_at
        job.forgotten_at = forgotten_at
        job.hops, job.has_moved = hops, has_moved
        job.parts = [self._part(job, index, row) for index, row in enumerate(parts)]

    def _part(self, job: Job, index: int, row: Row) -> JobPart:
        texts = self._texts
        bound, state, attempt, returned, worker, peer, fault = row[:7]
        part = JobPart(job, index, None if bound is None else WorkerName(texts[bound]))
        part.state, part.attempt, part.returned = JobState(texts[state]), attempt, returned
        part.worker, part.peer, part.fault = texts[worker], texts[peer], _read_fault(fault)
        part.result_seq, part.dispatched_at = row[7], row[8]
        part.dispatch_seq, part.accept_seq = row[9], row[10]
        part.is_waiting_for_input, part.refusals = row[11], row[12]
        part.service, part.target, part.task = texts[row[13]], self._target(row[14]), texts[row[15]]
        part.request_seq, part.nbytes = row[16], row[17]
        part.failures, part.retry_at, part.setback = row[18], row[19], _read_fault(row[20])
        part.answers = row[21]
        return part

    def _target(self, at: int) -> Target:
        found = self._targets.get(at)
        if found is None:
            found = self._targets[at] = parse_target(self._texts[at])
        return found

    def _terms_at(self, at: int) -> Terms:
        found = self._terms.get(at)
        if found is None:
            found = self._terms[at] = read_terms(self._texts[at])
        return found


def _read_fault(row: Row) -> Fault | None:
    return None if row is None else Fault(FaultCode(row[0]), row[1])
