"""The exceptions of the SDK."""

from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode


class DragomanError(Exception):
    """Base class of the SDK's exceptions."""


class Unreachable(DragomanError):
    """The broker did not answer in time."""


class Refused(DragomanError):
    """One side refused the other's credentials."""


class StillRunning(DragomanError, TimeoutError):
    """The result did not come in time. The job continues; ask for it again by its id."""


class JobFailed(DragomanError):
    """The job failed. `fault` gives the reason, `answers` the answers of its workers."""

    def __init__(self, job: str, fault: Fault, answers: tuple[Answer, ...] = ()) -> None:
        reason = fault.message or fault.code
        doubt = "" if fault.is_definite else " (the job may have run)"
        super().__init__(f"job {job} {fault.code}: {reason}{doubt}")
        self.job = job
        self.fault = fault
        self.answers = answers


class Denied(JobFailed):
    """The broker's policy denied the request."""


class Expired(JobFailed):
    """A deadline of the job passed."""


class Cancelled(JobFailed):
    """The job was cancelled."""


class NotDeterministic(JobFailed):
    """A task that ran again submitted another child job at the same position."""


_BY_CODE = {
    FaultCode.NOT_DETERMINISTIC: NotDeterministic,
    FaultCode.DENIED: Denied,
    FaultCode.QUEUE_TIMEOUT: Expired,
    FaultCode.RUN_TIMEOUT: Expired,
    FaultCode.JOB_TIMEOUT: Expired,
    FaultCode.CANCELLED: Cancelled,
    FaultCode.CANCEL_UNCONFIRMED: Cancelled,
}


def failure(job: str, fault: Fault, answers: tuple[Answer, ...] = ()) -> JobFailed:
    """Return the exception for a fault."""
    return _BY_CODE.get(fault.code, JobFailed)(job, fault, answers)
