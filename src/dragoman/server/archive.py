"""Bodies and finished jobs that are no longer in memory, read back from the ledger."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from dragoman.core.effects import JobStatus, PartStatus, SendReply, SendStatus, SendWork
from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job
from dragoman.core.recovery import fold
from dragoman.core.results import result_gone
from dragoman.core.state import status_of
from dragoman.ledger.base import Entry, Ledger
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record

#: Refusals of the request itself: the caller does not learn the state of the job.
_NO_ANSWER: Final = frozenset({FaultCode.DENIED, FaultCode.QUEUE_FULL})


class Archive:
    """Reads from the ledger, and from bodies that are not written yet."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        #: Bodies that are not durable yet, by sequence number.
        self._held: dict[int, Body] = {}

    def hold(self, seq: int, body: Body) -> None:
        """Keep a body until it is durable."""
        self._held[seq] = body

    def release(self, entries: Iterable[Entry]) -> None:
        """Drop the bodies that are durable now."""
        for entry in entries:
            self._held.pop(entry.record.seq, None)

    def body(self, seq: int) -> Body | None:
        """Return the body of a record."""
        return self._held.get(seq) or self._ledger.body(seq)

    def with_body(self, reply: SendReply) -> SendReply:
        """Fill in the body of a repeated answer."""
        return SendReply(
            reply.client,
            reply.job,
            reply.kind,
            reply.service,
            reply.worker,
            self.body(reply.seq) or EMPTY,
            reply.fault,
            reply.workers,
            reply.state,
            0,
            reply.is_strict,
            reply.resources,
        )

    def with_request(self, work: SendWork) -> SendWork:
        """Fill in the body of a request that waited on disk."""
        body = self.body(work.body_seq) or EMPTY
        filled: SendWork = replace(work, body=body, body_seq=0)
        return filled

    def complete(self, answer: SendStatus, now: float) -> SendStatus:
        """Look up a job that the core has forgotten, and fill in the bodies of results."""
        fault = answer.fault
        if answer.status is None and fault is not None and fault.code in _NO_ANSWER:
            return answer
        status = answer.status or self.status(answer.job, now)
        if status is None:
            return answer
        parts = tuple(self._with_result(p) for p in status.parts)
        filled = JobStatus(
            status.job,
            status.state,
            status.service,
            status.client,
            parts,
            status.fault,
            status.is_waiting_for_input,
            status.is_cancelling,
            status.submitted_at,
            status.ended_at,
            status.task,
            status.target,
        )
        fault = answer.fault if answer.status else status.fault
        return SendStatus(answer.client, answer.job, answer.asked, filled, fault, answer.is_strict)

    def submission(self, job: JobId) -> tuple[Record, Body] | None:
        """Return the record and body of a job's submission, if the ledger still has both."""
        found = [r for r in self._ledger.history(job) if r.kind == Kind.SUBMITTED]
        body = self.body(found[-1].seq) if found else None
        return (found[-1], body) if body is not None else None

    def status(self, job: JobId, now: float) -> JobStatus | None:
        """Return the last recorded status of a job."""
        found = self.job(job)
        return status_of(found, result_gone(found, now)) if found else None

    def job(self, job: JobId) -> Job | None:
        """Return a job as the ledger's records have it."""
        # Retention may have removed the beginning of its history.
        return fold(self._ledger.history(job), store=JobStore(is_cut=True)).jobs.get(job)

    def _with_result(self, part: PartStatus) -> PartStatus:
        if part.body is not None or not part.seq:
            return part
        body = self.body(part.seq)
        return PartStatus(
            *(part.worker, part.state, part.attempt, part.fault, part.seq, body), part.resources
        )
