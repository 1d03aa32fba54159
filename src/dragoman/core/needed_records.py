"""Which records a later start still needs. Retention removes others, however old these are.

A start without a snapshot replays the needed records and then all newer ones. The result has the
same jobs, dead letters, schedules, pauses, drains, rules of limits, sessions and states of peers as
a replay of everything. Tokens that forgotten jobs spent are not needed: they have long come back.
"""

from collections.abc import Iterator
from itertools import chain

from dragoman.core.job_store import JobStore
from dragoman.model.names import JobId, ServiceName
from dragoman.model.record import Kind, Record


class NeededRecords:
    """What a store needs of the records written so far; later records may only make it less."""

    def __init__(self, store: JobStore) -> None:
        self._jobs = store.jobs
        self._queue = store.queue
        self._seqs = frozenset(_named_records(store))
        #: A `forgotten` record is needed as long as older results of its service are remembered.
        self._memoised = {job.service for job in store.finished if job.terms.memoize}

    def __call__(self, record: Record) -> bool:
        """Tell whether a record is needed."""
        if record.seq in self._seqs:
            return True
        if record.kind == Kind.PAUSED:
            return record.service in self._queue.paused
        if record.kind == Kind.DRAINED:
            return record.worker in self._queue.drained
        if record.kind == Kind.FORGOTTEN:
            return ServiceName(record.service) in self._memoised
        # A tick names its job, and says something of its schedule only.
        return bool(record.job) and record.kind != Kind.TICKED and self._is_of_a_job(record)

    def _is_of_a_job(self, record: Record) -> bool:
        """Tell whether a record belongs to a known job, and not to an earlier one of its id."""
        job = self._jobs.get(JobId(record.job))
        if job is not None:
            return record.seq >= job.submit_seq
        return record.job in self._queue.dead


def _named_records(store: JobStore) -> Iterator[int]:
    """Yield the records that the state refers to by number."""
    yield store.started_seq
    yield from (each.seq for each in store.queue.schedules.values())
    yield from store.queue.limits.seqs.values()
    yield from (seq for seq, _ in store.joins.values())
    yield from store.peer_states.values()
    yield from store.results.values()
    # A memoised result is stored with a record of an earlier job.
    ended = chain(store.finished, store.families.held.values())
    yield from (part.result_seq for job in ended for part in job.parts)
