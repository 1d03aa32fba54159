"""The life of a job: its states and the table of legal moves between them."""

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """Where a job, or one of its assignments, stands."""

    QUEUED = "queued"  #: waiting for a worker, or for its turn
    RUNNING = "running"  #: with a worker
    SUCCEEDED = "succeeded"
    FAILED = "failed"  #: the worker ran it and it failed
    EXPIRED = "expired"  #: a deadline passed
    CANCELLED = "cancelled"
    DEAD = "dead"  #: every attempt was lost; kept with its history for a person to look at


FINAL: Final = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED, JobState.DEAD}
)

#: From each state, the states it may move to. Final states never change.
TRANSITIONS: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.QUEUED: FINAL | {JobState.RUNNING},
    JobState.RUNNING: FINAL | {JobState.QUEUED, JobState.RUNNING},
    **{state: frozenset() for state in FINAL},
}
