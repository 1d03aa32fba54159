"""The jobs that HTTP worker sessions hold.

A session may post a report twice, because the first response was lost. So each assignment is kept
until its final report, and final reports are remembered: a repeated report counts once, and a late
one is recognised.
"""

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

#: The answers to a report: it counts; it counted before; it is of an attempt that is over.
TAKEN: Final = "taken"
REPEATED: Final = "repeated"
LATE: Final = "late"


class HttpAssignments:
    """The assignments of all worker sessions."""

    def __init__(self, remembered: int) -> None:
        #: Most final reports remembered.
        self._remembered = remembered
        #: By session, the attempt of each job that it holds.
        self._held: dict[str, dict[str, int]] = {}
        self._ended: OrderedDict[tuple[str, str, int], None] = OrderedDict()

    def add(self, session: str, job: str, attempt: int) -> None:
        """Add a job that a session got."""
        self._held.setdefault(session, {})[job] = attempt

    def resume(self, session: str, holds: Collection[str]) -> None:
        """Keep only the jobs that a session still holds."""
        held = self._held.get(session, {})
        self._held[session] = {job: held[job] for job in held if job in holds}

    def forget(self, session: str) -> None:
        """Forget the jobs of a session that has ended."""
        self._held.pop(session, None)

    def judge(self, session: str, job: str, attempt: int, is_final: bool) -> str:
        """Return the answer to a report; a final one ends the assignment."""
        if (session, job, attempt) in self._ended:
            return REPEATED
        held = self._held.get(session, {})
        if held.get(job) != attempt:
            return LATE
        if is_final:
            del held[job]
            self._ended[session, job, attempt] = None
            if len(self._ended) > self._remembered:
                self._ended.popitem(last=False)
        return TAKEN
