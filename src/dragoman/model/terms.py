"""The terms a job is submitted on: every policy of the core that a job may choose.

The five protocols differ in policy, not in code paths: a dialect states its peers' policy here
and the core never asks which dialect it was.
"""

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from dragoman.model.capacity import NOTHING, Capacity

#: How a worker is chosen among those that can take a job.
BALANCES: Final = ("least_loaded", "least_recently_used", "round_robin")


@dataclass(frozen=True, slots=True)
class Terms:
    """All spans are in seconds; None means without limit."""

    #: How long to wait while no worker at all can serve the target. 0: refuse at once.
    patience: float | None = 60.0
    #: How long to wait in the queue, whatever the reason.
    queue_timeout: float | None = None
    #: How long one attempt may run on a worker.
    run_timeout: float | None = None
    #: How long the whole job may take, from submission to its final state.
    timeout: float | None = None
    #: How often the job may be dispatched before it is dead. Counted at dispatch.
    max_attempts: int = 3
    #: Wait before the second attempt after a lost worker; doubles each time, to a minute.
    backoff: float = 0.0
    #: Orders one client's own jobs; higher first.
    priority: int = 0
    balance: str = "least_loaded"
    #: What the job takes of a worker's capacity while it runs.
    needs: Capacity = NOTHING
    #: Strict: recorded on disk before any consequence leaves the process.
    strict: bool = True
    #: How long to wait for a worker to confirm a cancel.
    cancel_grace: float = 5.0
    #: Answer from an earlier success of the same service and body, where there is one.
    memoize: bool = False

    def __hash__(self) -> int:
        return hash((self.timeout, self.run_timeout, self.patience, self.priority, self.balance))


_DEFAULTS: Final = Terms()


@lru_cache(maxsize=1024)
def terms_text(terms: Terms) -> str:
    """Write terms as text: a JSON object of what differs from the defaults."""
    said = {f.name: getattr(terms, f.name) for f in fields(Terms)}
    changed = {k: v for k, v in said.items() if v != getattr(_DEFAULTS, k)}
    if "needs" in changed:
        changed["needs"] = {f.name: getattr(terms.needs, f.name) for f in fields(Capacity)}
    return json.dumps(changed, separators=(",", ":")) if changed else ""


@lru_cache(maxsize=1024)
def read_terms(text: str) -> Terms:
    """Read what `terms_text` wrote; unknown members are from a newer version and are left out."""
    said = json.loads(text) if text else {}
    known = _known(Terms, said)
    if "needs" in known:
        known["needs"] = Capacity(**_known(Capacity, known["needs"]))
    return Terms(**known)


def _known(cls: type[Terms] | type[Capacity], said: dict[str, Any]) -> dict[str, Any]:
    return {f.name: said[f.name] for f in fields(cls) if f.name in said}
