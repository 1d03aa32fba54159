"""What can go wrong for a user of the SDK, by name."""

from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode


class DragomanError(Exception):
    """Anything this library raises."""


class Unreachable(DragomanError):
    """No answer from the broker within the time given."""


class Refused(DragomanError):
    """The broker, or this side, does not take what the other proves itself with."""


class StillRunning(DragomanError, TimeoutError):
    """The result did not come in time; the job goes on, and may be asked for again."""


class JobFailed(DragomanError):
    """The job ended without success. `fault` says how; `answers` has what workers said."""

    def __init__(self, job: str, fault: Fault, answers: tuple[Answer, ...] = ()) -> None:
        words = fault.message or fault.code
        sure = "" if fault.is_definite else " (it may have run all the same)"
        super().__init__(f"job {job} {fault.code}: {words}{sure}")
        self.job = job
        self.fault = fault
        self.answers = answers


class Denied(JobFailed):
    """The broker's policy does not allow it."""


class Expired(JobFailed):
    """A deadline of the job passed."""


class Cancelled(JobFailed):
    """The job was cancelled."""


_BY_CODE = {
    FaultCode.DENIED: Denied,
    FaultCode.QUEUE_TIMEOUT: Expired,
    FaultCode.RUN_TIMEOUT: Expired,
    FaultCode.JOB_TIMEOUT: Expired,
    FaultCode.CANCELLED: Cancelled,
    FaultCode.CANCEL_UNCONFIRMED: Cancelled,
}


def failure(job: str, fault: Fault, answers: tuple[Answer, ...] = ()) -> JobFailed:
    """Make the exception that fits a fault."""
    return _BY_CODE.get(fault.code, JobFailed)(job, fault, answers)
