"""The attempts of a job, read from its records: who had it, for how long, and how that ended."""

from collections.abc import Iterable
from typing import Final

from dragoman.model.record import Kind, Record
from dragoman.model.value import value

RUNNING: Final = "running"
_STOPS: Final = frozenset({Kind.REQUEUED, Kind.GATHERED, Kind.FORWARDED})


@value
class Attempt:
    """One dispatch of a part of a job."""

    attempt: int
    part: int
    worker: str
    dialect: str
    began_at: float
    #: 0 while it runs.
    ended_at: float = 0.0
    #: The fault that ended it, or else the state that it led to.
    outcome: str = RUNNING


def attempts(records: Iterable[Record]) -> list[Attempt]:
    """Return the attempts of one job, in the order of their dispatch."""
    found: list[Attempt] = []
    for record in records:
        if record.kind == Kind.DISPATCHED:
            found.append(
                Attempt(record.attempt, record.part, record.worker, record.dialect, record.at)
            )
        elif record.kind in _STOPS:
            found = [_ended(each, record, each.part == record.part) for each in found]
        elif record.kind == Kind.ENDED:
            found = [_ended(each, record) for each in found]
    return found


def _ended(attempt: Attempt, record: Record, is_meant: bool = True) -> Attempt:
    if attempt.ended_at or not is_meant:
        return attempt
    outcome = record.fault or _outcome(record)
    first = (attempt.attempt, attempt.part, attempt.worker, attempt.dialect, attempt.began_at)
    return Attempt(*first, record.at, outcome)


def _outcome(record: Record) -> str:
    return str(record.kind) if record.kind in (Kind.REQUEUED, Kind.FORWARDED) else record.state
