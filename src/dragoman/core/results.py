"""How long the result of a finished job is given out.

A result expires by its own terms, or is forgotten on request. Whether it has expired follows from
the records and the time alone, so a restart changes nothing. The ledger keeps its records.
"""

from datetime import UTC, datetime

from dragoman.core.jobs import Job
from dragoman.model.fault import Fault, FaultCode


def result_gone(job: Job, now: float) -> Fault | None:
    """Return why the result of a job is given out no more; None: it is, or the job is open."""
    if not job.is_final:
        return None
    ttl = job.terms.result_ttl
    until = None if ttl is None else job.ended_at + ttl
    if job.forgotten_at:
        how = f"was forgotten on request at {_text(job.forgotten_at)}"
    elif until is not None and now >= until:
        how = f"expired at {_text(until)}, {ttl:g} s after the job ended"
    else:
        return None
    message = f"the result of job {job.id} {how}; submit the job again under a new id"
    return Fault(FaultCode.RESULT_GONE, message)


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
