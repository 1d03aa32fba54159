"""Checks which results are given out against the records, independently of the broker's code."""

from dragoman.core.effects import Effect, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.record import Kind, Record
from dragoman.model.terms import read_terms


class ResultChecker:
    """When each result expires, and which are forgotten."""

    def __init__(self) -> None:
        self._ttls: dict[str, float] = {}
        self._parents: dict[str, str] = {}
        #: Job -> when it ended; no entry: it is open.
        self._ended: dict[str, float] = {}
        self._forgotten: set[str] = set()

    def take(self, record: Record) -> None:
        """Note what a record says about a result."""
        if record.kind == Kind.SUBMITTED:
            ttl = read_terms(record.terms).result_ttl
            if ttl is not None:
                self._ttls[record.job] = ttl
            if record.parent:
                self._parents[record.job] = record.parent
        elif record.kind == Kind.ENDED:
            self._ended[record.job] = record.at
        elif record.kind == Kind.RESULT_FORGOTTEN:
            assert record.job in self._ended, f"{record.job}: forgotten before its end"
            self._forgotten.add(record.job)

    def is_gone(self, job: str, now: float) -> bool:
        """Tell whether the result of a job may be given out no more."""
        parent = self._parents.get(job)
        if job not in self._ended or (parent is not None and parent not in self._ended):
            return False
        expires_at = self._ended[job] + self._ttls.get(job, float("inf"))
        return job in self._forgotten or now >= expires_at

    def check(self, effect: Effect, job: str, now: float) -> None:
        """Check an answer about a job, whose own id is `job`."""
        found = _given(effect)
        if found is None:
            return
        has_result, fault = found
        is_gone = self.is_gone(job, now)
        assert not (is_gone and has_result), f"{job}: its result is given out, but is gone"
        is_said = fault is not None and fault.code is FaultCode.RESULT_GONE
        assert is_gone or not is_said, f"{job}: its result is said to be gone too soon"


def _given(effect: Effect) -> tuple[bool, Fault | None] | None:
    """Return whether an answer about a success has a result, and its fault."""
    if type(effect) is SendReply:
        if effect.kind is ReplyKind.FINAL and effect.state is JobState.SUCCEEDED:
            return bool(effect.seq or effect.body.parts), effect.fault
    elif type(effect) is SendStatus and effect.status is not None:
        status = effect.status
        if status.state is JobState.SUCCEEDED:
            return any(part.seq or part.body for part in status.parts), status.fault
    return None
