"""Searches of the ledger's history: what is wanted, and one page of what was found.

A search goes back from a position and looks at a bounded number of records. So a page may be
empty and still have a position to continue from.
"""

from typing import Final

from dragoman.model.value import value

#: Most rows of one page.
LARGEST_PAGE: Final = 500


@value
class HistoryFilter:
    """The wanted jobs or records. Empty text and zero mean "any"."""

    #: Kinds of records; a search for jobs ignores them.
    kinds: tuple[str, ...] = ()
    #: States of jobs; a search for records ignores them.
    state: str = ""
    service: str = ""
    task: str = ""
    #: A client's id, or the beginning of it.
    client: str = ""
    worker: str = ""
    principal: str = ""
    #: The dialect of the client.
    dialect: str = ""
    fault: str = ""
    #: Part of the job's id, task, client, worker or detail.
    text: str = ""
    since: float = 0.0
    until: float = 0.0
    #: Services that are left out, unless `service` names one.
    without: tuple[str, ...] = ()
    #: The link of the worker that ended the job.
    worker_link: str = ""


@value
class HistoryPage:
    """Rows, newest first, and where the search stopped."""

    rows: tuple[dict[str, object], ...]
    #: Continue before this position; 0: the oldest record was reached.
    before: int
    #: The time of the last record that was looked at.
    looked_back_to: float
