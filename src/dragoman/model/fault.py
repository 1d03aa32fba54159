"""Every way a job or a request can fail, by name. Dialects map these to their own codes.

A fault is *definite* when the work surely did not happen (or surely failed), and *indefinite*
when it may have happened although nobody can tell. A caller may repeat after a definite
fault without fear of doing the work twice.
"""

from enum import StrEnum
from typing import Final

from dragoman.model.value import value


class FaultCode(StrEnum):
    """The named ways to fail."""

    BAD_REQUEST = "bad_request"  #: the request cannot be understood
    TOO_LARGE = "too_large"  #: the body exceeds the limit
    UNMAPPABLE = "unmappable"  #: the content has no form in the worker's dialect
    DENIED = "denied"  #: the principal may not do this
    CONFLICT = "conflict"  #: the job id or idempotency key is taken by another body
    UNKNOWN_JOB = "unknown_job"  #: no such job, or its retention is over
    NO_WORKER = "no_worker"  #: nobody offers the service, or nobody matches the target
    QUEUE_FULL = "queue_full"  #: the service's queue bound (jobs or bytes) is reached
    DRAINING = "draining"  #: the broker takes no new work
    QUEUE_TIMEOUT = "queue_timeout"  #: waited too long for a worker
    RUN_TIMEOUT = "run_timeout"  #: ran too long
    JOB_TIMEOUT = "job_timeout"  #: the whole job took too long
    TASK_FAILED = "task_failed"  #: the worker ran it and says it failed
    WORKER_LOST = "worker_lost"  #: the worker vanished while it held the job
    HANDED_BACK = "handed_back"  #: the worker returned the job without running it
    UNDELIVERED = "undelivered"  #: the work never reached the worker
    EXHAUSTED = "exhausted"  #: every attempt was lost
    TOO_MANY_HOPS = "too_many_hops"  #: handed over from service to service too often
    CANCELLED = "cancelled"  #: cancelled, and the worker confirmed (or never had it)
    CANCEL_UNCONFIRMED = "cancel_unconfirmed"  #: cancelled, but the worker may have gone on


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
    """One failure: its name, and words for a person (what happened, what to do next)."""

    code: FaultCode
    message: str = ""

    @property
    def is_definite(self) -> bool:
        """Whether the work surely did not happen or surely failed."""
        return self.code not in _INDEFINITE
