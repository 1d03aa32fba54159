"""Faults: the named ways a job or request can fail. Dialects map them to their own codes.

A fault is *definite* if the work certainly did not happen or certainly failed. It is *indefinite*
if the work may have happened. After a definite fault a caller may repeat the request without doing
the work twice.
"""

from enum import StrEnum
from typing import Final

from dragoman.model.value import value


class FaultCode(StrEnum):
    """The named ways to fail."""

    BAD_REQUEST = "bad_request"  #: the request cannot be parsed
    TOO_LARGE = "too_large"  #: the body exceeds the limit
    UNMAPPABLE = "unmappable"  #: the content cannot be expressed in the worker's dialect
    DENIED = "denied"  #: the principal may not do this
    CONFLICT = "conflict"  #: the job id or idempotency key was used with another body
    DUPLICATE = "duplicate"  #: another job has the unique key; the message names it
    #: a task that ran again submitted another child at the same position
    NOT_DETERMINISTIC = "not_deterministic"
    UNKNOWN_JOB = "unknown_job"  #: no such job, or its retention is over
    RESULT_GONE = "result_gone"  #: the job ended, but its result expired or was forgotten
    NO_WORKER = "no_worker"  #: no worker offers the service or matches the target
    QUEUE_FULL = "queue_full"  #: the service's queue limit (jobs or bytes) is reached
    DRAINING = "draining"  #: the broker accepts no new jobs
    UNAVAILABLE = "unavailable"  #: the broker cannot record new jobs: its ledger is not writable
    QUEUE_TIMEOUT = "queue_timeout"  #: the job waited too long for a worker
    RUN_TIMEOUT = "run_timeout"  #: one attempt ran too long
    JOB_TIMEOUT = "job_timeout"  #: the whole job took too long
    TASK_FAILED = "task_failed"  #: the worker ran the job and reported a failure
    WORKER_LOST = "worker_lost"  #: the worker was lost while it held the job
    HANDED_BACK = "handed_back"  #: the worker returned the job without running it
    UNDELIVERED = "undelivered"  #: the job never reached the worker
    EXHAUSTED = "exhausted"  #: the worker was lost in every attempt
    TOO_MANY_HOPS = "too_many_hops"  #: forwarded from service to service too often
    CANCELLED = "cancelled"  #: cancelled; the worker confirmed or never had the job
    CANCEL_UNCONFIRMED = "cancel_unconfirmed"  #: cancelled, but the worker may still run the job


_INDEFINITE: Final = frozenset(
    {
        FaultCode.RUN_TIMEOUT,
        FaultCode.JOB_TIMEOUT,
        FaultCode.WORKER_LOST,
        FaultCode.EXHAUSTED,
        FaultCode.CANCEL_UNCONFIRMED,
    }
)


@value
class Fault:
    """One failure: its code, and a message for people (what happened, what to do next)."""

    code: FaultCode
    message: str = ""

    @property
    def is_definite(self) -> bool:
        """Whether the work certainly did not happen or certainly failed."""
        return self.code not in _INDEFINITE
