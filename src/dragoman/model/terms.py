"""Terms: the policies that a job chooses when it is submitted.

The protocols differ in policy, not in code paths. A dialect states its policy here, and the core
never asks for the dialect.
"""

import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.limit import Limit, limit_members, read_members
from dragoman.model.parent import Parent
from dragoman.model.retry import Retry, read_retry, retry_members
from dragoman.model.unique import Unique, read_unique, unique_members

#: How a worker is chosen among those that can take a job.
BALANCES: Final = ("least_loaded", "least_recently_used", "round_robin")


@dataclass(frozen=True, slots=True)
class Terms:
    """The policies of one job. Durations are in seconds; None means no limit."""

    #: How long to wait while no registered worker matches. 0: refuse the submission.
    patience: float | None = 60.0
    #: How long to wait in the queue, whatever the reason.
    queue_timeout: float | None = None
    #: How long one attempt may run on a worker.
    run_timeout: float | None = None
    #: How long the whole job may take, from submission to its final state.
    timeout: float | None = None
    #: The job is dead after its worker was lost in this many attempts.
    max_attempts: int = 3
    #: Wait before the second attempt after a lost worker; doubles each time, up to a minute.
    backoff: float = 0.0
    #: Orders the jobs of one client; higher first.
    priority: int = 0
    #: How many jobs its client gets in one turn.
    weight: int = 1
    balance: str = "least_loaded"
    #: The capacity the job takes while it runs.
    needs: Capacity = NOTHING
    #: Strict: recorded on disk before any of its messages leaves the process.
    strict: bool = True
    #: How long to wait for a worker to confirm a cancel.
    cancel_grace: float = 5.0
    #: Answer with an earlier success of the same service and body, if there is one.
    memoize: bool = False
    #: Whether and when a task that failed runs again. None: as the worker says of its task.
    retry: Retry | None = None
    #: The job starts so many seconds after its submission at the earliest, ...
    delay: float = 0.0
    #: ... and not before this instant, in seconds since the epoch.
    not_before: float = 0.0
    #: A limit that it shares with the other jobs of its key.
    limit: Limit | None = None
    #: A key that only one job has at a time.
    unique: Unique | None = None
    #: How long after its end the job's result is given out; None: as long as the job is known.
    result_ttl: float | None = None
    #: The URL that gets the end of the job; empty: none.
    webhook: str = ""
    #: What made the job: `schedule NAME`, or `job ID` if it repeats a dead letter.
    origin: str = ""
    #: The brokers that the job has passed on its way here, the first one first.
    path: tuple[str, ...] = ()
    #: The job whose task submitted this one. Fields of the record of their own keep it.
    parent: Parent | None = None

    def __hash__(self) -> int:
        """Hash what differs from job to job. Terms are keys of caches, so a collision is dear."""
        waits = (self.timeout, self.run_timeout, self.patience, self.delay, self.not_before)
        names = (self.parent, self.unique, self.limit, self.webhook, self.origin, self.path)
        return hash((*waits, self.priority, *names))

    def starts_at(self, submitted_at: float) -> float:
        """Return when a job that was submitted then may start."""
        delay = self.delay
        if self.unique is not None and self.unique.quiet > delay:
            delay = self.unique.quiet
        starts_at = submitted_at + delay
        return starts_at if starts_at > self.not_before else self.not_before


_DEFAULTS: Final = Terms()


def terms_text(terms: Terms) -> str:
    """Write terms as text: a JSON object of the members that differ from the defaults."""
    # Each child job has a parent and position of its own, which are not written here.
    return _terms_text(terms if terms.parent is None else replace(terms, parent=None))


@lru_cache(maxsize=1024)
def _terms_text(terms: Terms) -> str:
    members = {f.name: getattr(terms, f.name) for f in fields(Terms)}
    changed = {k: v for k, v in members.items() if v != getattr(_DEFAULTS, k)}
    if "needs" in changed:
        changed["needs"] = {f.name: getattr(terms.needs, f.name) for f in fields(Capacity)}
    if terms.retry is not None:
        changed["retry"] = retry_members(terms.retry)
    if terms.unique is not None:
        changed["unique"] = unique_members(terms.unique)
    if terms.limit is not None:
        changed["limit"] = limit_members(terms.limit)
    return json.dumps(changed, separators=(",", ":")) if changed else ""


@lru_cache(maxsize=1024)
def read_terms(text: str) -> Terms:
    """Parse what `terms_text` wrote; ignore unknown members of newer versions."""
    members = json.loads(text) if text else {}
    known = _known(Terms, members)
    if "needs" in known:
        known["needs"] = Capacity(**_known(Capacity, known["needs"]))
    if "retry" in known:
        known["retry"] = read_retry(_known(Retry, known["retry"]))
    if "path" in known:
        known["path"] = tuple(known["path"])
    if "unique" in known:
        known["unique"] = read_unique(_known(Unique, known["unique"]))
    if "limit" in known:
        known["limit"] = read_members(_known(Limit, known["limit"]))
    return Terms(**known)


def _known(
    cls: type[Terms] | type[Capacity] | type[Retry] | type[Limit] | type[Unique],
    members: dict[str, object],
) -> dict[str, Any]:
    return {f.name: members[f.name] for f in fields(cls) if f.name in members}
