"""What the records say of limits: the rules of services and tasks, and the spent tokens.

Part of the fold. Who runs under a limit is not kept here: it follows from the state of the parts.
"""

import json
from typing import Any, Final

from dragoman.core.jobs import JobPart
from dragoman.model.limit import Limit, limit_members, read_members
from dragoman.model.names import ServiceName
from dragoman.model.record import Record

#: Full buckets are dropped when there are twice as many as after the last time, from this number.
_SWEEP_ABOVE: Final = 1024


class LimitState:
    """Rules by name (`service NAME`, `task SERVICE TASK`), and buckets that are not full."""

    def __init__(self) -> None:
        self.rules: dict[str, Limit] = {}
        #: The record of each rule, so that retention keeps it.
        self.seqs: dict[str, int] = {}
        #: Limiter -> when its bucket of tokens is full again.
        self.full_at: dict[str, float] = {}
        self._sweep_at = _SWEEP_ABOVE

    def limited(self, record: Record) -> None:
        """Apply a `limited` record."""
        name = rule_name(record.service, record.task)
        limit = read_members(json.loads(record.detail or "{}"))
        self.rules.pop(name, None)
        self.seqs.pop(name, None)
        if not limit.is_none:
            self.rules[name], self.seqs[name] = limit, record.seq

    def rules_of(self, service: ServiceName, task: str) -> list[tuple[str, Limit]]:
        """Return the rules of a service and a task. Versions of a service share them."""
        if not self.rules:
            return []
        base = service.partition("@")[0]
        names = (rule_name(base), rule_name(base, task)) if task else (rule_name(base),)
        return [(name, self.rules[name]) for name in names if name in self.rules]

    def spend(self, part: JobPart, at: float) -> None:
        """Take the tokens of a part that is dispatched."""
        found = self.rules_of(part.service, part.task)
        if part.job.terms.limit is not None:
            found.append((key_name(part, part.job.terms.limit), part.job.terms.limit))
        for name, limit in found:
            if limit.rate:
                self.full_at[name] = limit.spend(self.full_at.get(name, 0.0), at)
        if len(self.full_at) > self._sweep_at:
            self.full_at = self._unfilled(at)
            self._sweep_at = max(_SWEEP_ABOVE, 2 * len(self.full_at))

    def _unfilled(self, now: float) -> dict[str, float]:
        return {name: at for name, at in self.full_at.items() if at > now}

    def rows(self) -> list[object]:
        """Return everything as plain values, for a snapshot."""
        rules = [[n, limit_members(limit), self.seqs[n]] for n, limit in self.rules.items()]
        return [rules, dict(self.full_at)]

    @classmethod
    def of_rows(cls, rows: list[Any]) -> "LimitState":
        """Return the state that `rows` was made from."""
        state = cls()
        for name, members, seq in rows[0]:
            state.rules[name], state.seqs[name] = read_members(members), seq
        state.full_at = rows[1]
        return state

    def as_recorded(self, now: float) -> tuple[object, ...]:
        """Return everything, to compare two folds at an instant."""
        return dict(self.rules), dict(self.seqs), self._unfilled(now)


def rule_name(service: str, task: str = "") -> str:
    """Return the name of the limit of a service or task."""
    return f"task {service} {task}" if task else f"service {service}"


def key_name(part: JobPart, limit: Limit) -> str:
    """Return the name of the limit of a key. Principals do not share keys."""
    return f"key {part.job.principal} {limit.key}"
