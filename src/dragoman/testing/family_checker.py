"""Checks the records of parents and children: no child twice, none that outlives its parent."""

from collections.abc import Callable
from typing import Final

from dragoman.model.fault import FaultCode
from dragoman.model.job import FINAL
from dragoman.model.record import Kind, Record

#: Attempts that end with these are repeated as they were; after any other fault the task failed.
_NOT_FAILED: Final = frozenset(
    {FaultCode.WORKER_LOST.value, FaultCode.HANDED_BACK.value, FaultCode.UNDELIVERED.value}
)
_SUCCEEDED: Final = "succeeded"


class FamilyChecker:
    """What the records say about parents and children."""

    def __init__(self) -> None:
        #: Job -> its state, if it ended; empty: open.
        self._states: dict[str, str] = {}
        self._deadlines: dict[str, float] = {}
        self._cancelled: set[str] = set()
        #: Parent -> position -> child.
        self._children: dict[str, dict[int, str]] = {}
        #: Children that must be cancelled before the next event.
        self._doomed: set[str] = set()

    def has_open(self, job: str) -> bool:
        """Tell whether a job has open children."""
        return any(not self._states[c] for c in self._children.get(job, {}).values())

    def between_events(self) -> None:
        """Check what must be done when an event has been handled."""
        left = [job for job in self._doomed if not self._states[job] and job not in self._cancelled]
        assert not left, f"{left[0]} goes on although its parent is cancelled or failed"
        self._doomed.clear()

    def take(self, record: Record) -> None:
        """Check one record against the earlier ones."""
        step = _STEPS.get(record.kind)
        if step is not None:
            step(self, record)

    def _submitted(self, record: Record) -> None:
        self._states[record.job] = ""
        self._deadlines[record.job] = record.deadline_at
        if not record.parent:
            return
        parent, where = record.parent, f"child {record.position} of {record.parent}"
        assert self._states.get(parent) == "", f"{where} is new although its parent does not run"
        assert parent not in self._cancelled, f"{where} is new although its parent is cancelled"
        siblings = self._children.setdefault(parent, {})
        assert record.position not in siblings, f"{where} is repeated"
        siblings[record.position] = record.job
        if deadline := self._deadlines[parent]:
            assert 0 < record.deadline_at <= deadline, f"{where} may outlive its parent"

    def _cancel_asked(self, record: Record) -> None:
        self._cancelled.add(record.job)
        self._doom_children(record.job)

    def _requeued(self, record: Record) -> None:
        """Free the positions of failed children, if the parent's task failed."""
        if record.fault not in _NOT_FAILED and record.job in self._children:
            kept = self._children[record.job].items()
            self._children[record.job] = {
                position: child
                for position, child in kept
                if self._states[child] in ("", _SUCCEEDED)
            }

    def _ended(self, record: Record) -> None:
        self._states[record.job] = record.state
        assert record.state in FINAL
        if record.state != _SUCCEEDED:
            self._doom_children(record.job)

    def _doom_children(self, job: str) -> None:
        self._doomed.update(c for c in self._children.get(job, {}).values() if not self._states[c])


_STEPS: Final[dict[str, Callable[[FamilyChecker, Record], None]]] = {
    Kind.SUBMITTED: FamilyChecker._submitted,
    Kind.CANCEL_ASKED: FamilyChecker._cancel_asked,
    Kind.REQUEUED: FamilyChecker._requeued,
    Kind.ENDED: FamilyChecker._ended,
}
