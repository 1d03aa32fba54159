"""A child job: one that the task of another job, its parent, submitted.

A child has a position among the children of its parent, counted from 1 in the order of submission.
If the parent's task runs again, the child at the same position is the same job, so finished steps
are not repeated.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from dragoman.model.value import value

#: The highest position: a parent with more children should be split.
LAST_POSITION: Final = 10_000_000
_LONGEST_ID: Final = 256


@value
class Parent:
    """The parent of a job, and the job's position among the parent's children."""

    job: str
    position: int


def read_parent(given: object) -> Parent:
    """Read the option `parent`. Raises ValueError with a message for the client."""
    if not isinstance(given, Mapping) or set(given) != {"job", "position"}:
        raise ValueError("must be an object of job and position")
    job, position = given["job"], given["position"]
    if not isinstance(job, str) or not 0 < len(job) <= _LONGEST_ID:
        raise ValueError(f"job must be an id of 1 to {_LONGEST_ID} characters")
    if type(position) is not int or not 1 <= position <= LAST_POSITION:
        raise ValueError(f"position must be a whole number from 1 to {LAST_POSITION}")
    return Parent(job, position)


def parent_members(parent: Parent) -> dict[str, object]:
    """Return a parent as the option that a message carries."""
    return {"job": parent.job, "position": parent.position}


def child_id(parent: Parent, failed: int = 0) -> str:
    """Derive the id of a child, after so many that failed at its position.

    Every run of the parent's task derives the same.
    """
    text = f"dragoman child {parent.position} of {parent.job}, after {failed}"
    return sha256(text.encode()).hexdigest()[:32]
