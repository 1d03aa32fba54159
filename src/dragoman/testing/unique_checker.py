"""Checks unique keys against the records, independently of the broker's code."""

from dragoman.model.record import Record
from dragoman.model.terms import Terms
from dragoman.model.unique import Unique


class UniqueChecker:
    """The last job of each unique key, and how far it is."""

    def __init__(self) -> None:
        #: Key -> job, when it was submitted, its terms.
        self._last: dict[tuple[str, str], tuple[str, float, Unique]] = {}
        self._started: set[str] = set()
        self._ended: set[str] = set()

    def submitted(self, record: Record, terms: Terms) -> None:
        """Check that a job may have its key."""
        unique = terms.unique
        if unique is None:
            return
        key = (record.principal, unique.key)
        if key in self._last:
            self._check(record, unique, *self._last[key])
        self._last[key] = (record.job, record.at, unique)

    def _check(self, record: Record, unique: Unique, job: str, at: float, other: Unique) -> None:
        where = f"{record.job} has the unique key {unique.key} of {job}"
        is_over = job in self._ended
        if unique.quiet:
            assert is_over or job in self._started, f"{where}, which still waits"
            return
        is_over = is_over or (unique.until == "start" and job in self._started)
        assert is_over, f"{where}, which is not over"
        assert record.at >= at + other.period - 1e-6, f"{where}, which is recent"

    def started(self, record: Record) -> None:
        """Note that a job was dispatched."""
        self._started.add(record.job)

    def ended(self, record: Record) -> None:
        """Note that a job ended."""
        self._ended.add(record.job)
