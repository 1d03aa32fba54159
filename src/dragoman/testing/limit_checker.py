"""Checks limits against the records, independently of the broker's code.

Tokens are counted as a number that grows with time. The core keeps an instant instead; both must
agree on who may start when.
"""

import json
from typing import Final

from dragoman.model.limit import Limit, read_members
from dragoman.model.record import Record
from dragoman.model.terms import Terms

#: Instants are floats of seconds since the epoch: each is off by some 1e-7 s.
_ROUNDING: Final = 1e-4


class LimitChecker:
    """Who runs under which limit, and how many tokens are left, according to the records."""

    def __init__(self) -> None:
        self._rules: dict[str, Limit] = {}
        self._running: dict[str, set[object]] = {}
        #: Limiter -> tokens, and when they were counted.
        self._tokens: dict[str, tuple[float, float]] = {}
        self._places: dict[object, list[str]] = {}

    def limited(self, record: Record) -> None:
        """Note a new limit; its bucket is full."""
        name = f"{record.service}/{record.task}" if record.task else record.service
        self._rules[name] = read_members(json.loads(record.detail))
        self._tokens.pop(name, None)

    def start(self, part: object, record: Record, terms: Terms) -> None:
        """Check that a part may start."""
        # Parts without a task share the limit of their service only.
        names = [record.service, f"{record.service}/{record.task}"][: 2 if record.task else 1]
        places = [(name, self._rules.get(name)) for name in names]
        if terms.limit is not None:
            places.append((f"key {terms.limit.key}", terms.limit))
        self._places[part] = [name for name, _ in places]
        for name, limit in places:
            running = self._running.setdefault(name, set())
            running.add(part)
            if limit is not None:
                self._check(f"{record.job}/{record.part}", name, limit, record.at)

    def _check(self, where: str, name: str, limit: Limit, at: float) -> None:
        count = len(self._running[name])
        assert not limit.concurrency or count <= limit.concurrency, (
            f"{where} starts although {count - 1} run under the limit {name} ({limit})"
        )
        if limit.rate:
            most = float(limit.burst or max(int(limit.rate), 1))
            tokens, since = self._tokens.get(name, (most, at))
            tokens = min(most, tokens + (at - since) * limit.rate / limit.per) - 1
            assert tokens >= -_ROUNDING, f"{where} starts without a token of {name} ({limit})"
            self._tokens[name] = tokens, at

    def end(self, part: object) -> None:
        """Note that a part runs no longer."""
        for name in self._places.pop(part, ()):
            self._running[name].discard(part)
