"""The states of a job, and the legal transitions between them."""

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """The state of a job or of one of its parts."""

    QUEUED = "queued"  #: waiting for a worker
    RUNNING = "running"  #: a worker has it
    SUCCEEDED = "succeeded"
    FAILED = "failed"  #: the worker ran it and it failed
    EXPIRED = "expired"  #: a deadline passed
    CANCELLED = "cancelled"
    DEAD = "dead"  #: every attempt was lost; kept with its history as a dead letter


FINAL: Final = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED, JobState.DEAD}
)

#: From each state, the states it may change to. Final states never change.
TRANSITIONS: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.QUEUED: FINAL | {JobState.RUNNING},
    JobState.RUNNING: FINAL | {JobState.QUEUED, JobState.RUNNING},
    **{state: frozenset() for state in FINAL},
}
