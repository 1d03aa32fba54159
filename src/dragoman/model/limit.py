"""Limits: how many jobs run at a time, and how many start in a time.

A service or a task has a limit in the settings. A job may name one of its own by a *limit key*: all
jobs of one principal with the same key share it.
"""

import json
from dataclasses import fields
from typing import Any, Final

from dragoman.model.value import value

_LONGEST_KEY: Final = 200
_MOST: Final = 1_000_000
#: The longest time of a rate in seconds: a day.
_LONGEST_PER: Final = 86_400.0


@value
class Limit:
    """At most `concurrency` jobs at a time, and `rate` starts in `per` seconds. 0: no limit."""

    #: What the jobs share, such as `user:42`. Empty: the limit of a service or task.
    key: str = ""
    concurrency: int = 0
    rate: float = 0.0
    per: float = 1.0
    #: How many jobs may start at once after a quiet time; 0: as many as `rate` says.
    burst: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _require(len(self.key) <= _LONGEST_KEY, f"key must not exceed {_LONGEST_KEY} characters")
        _require(self.key.isprintable(), "key must be printable")
        _require(0 <= self.concurrency <= _MOST, f"concurrency must be 0 to {_MOST}")
        _require(0 <= self.rate <= _MOST, f"rate must be 0 to {_MOST}")
        _require(0.001 <= self.per <= _LONGEST_PER, "per must be 0.001 s to a day")
        _require(0 <= self.burst <= _MOST, f"burst must be 0 to {_MOST}")

    @property
    def is_none(self) -> bool:
        """Whether it limits nothing."""
        return not (self.concurrency or self.rate)

    @property
    def period(self) -> float:
        """Seconds until the next token."""
        return self.per / self.rate

    def spend(self, full_at: float, now: float) -> float:
        """Take a token of a bucket that is full at an instant; return when it is full again."""
        return max(full_at, now) + self.period

    def next_token(self, full_at: float) -> float:
        """Return when the bucket that is full at an instant has a token."""
        tokens = self.burst or max(int(self.rate), 1)
        return full_at - (tokens - 1) * self.period

    def __str__(self) -> str:
        """Say what is allowed."""
        said = [f"{self.concurrency} at a time"] if self.concurrency else []
        if self.rate:
            span = "second" if self.per == 1 else f"{self.per:g} s"
            said.append(f"{self.rate:g} a {span}" if self.per == 1 else f"{self.rate:g} in {span}")
        return ", ".join(said) or "no limit"


def _require(claim: bool, message: str) -> None:
    if not claim:
        raise ValueError(message)


NO_LIMIT: Final = Limit()


def limit_members(limit: Limit) -> dict[str, object]:
    """Return the members that differ from the defaults, for JSON."""
    found = {f.name: getattr(limit, f.name) for f in fields(Limit)}
    return {k: v for k, v in found.items() if v != getattr(NO_LIMIT, k)}


def limit_text(limit: Limit) -> str:
    """Write a limit as JSON."""
    return json.dumps(limit_members(limit), separators=(",", ":"))


def read_limit(given: object) -> Limit:
    """Read the limit of a call: an object with `key` and what it limits. Raises ValueError.

    Text is the JSON of that object: a query string has no objects.
    """
    limit = read_members(json.loads(given) if isinstance(given, str) else given)
    if not limit.key or limit.is_none:
        raise ValueError("a limit needs a key, and concurrency or rate")
    return limit


def read_members(given: object) -> Limit:
    """Read what `limit_members` returned. Raises ValueError."""
    if not isinstance(given, dict):
        raise ValueError("a limit must be an object such as {key: user:42, concurrency: 2}")
    known = {f.name: f for f in fields(Limit)}
    if unknown := [str(name) for name in given if name not in known]:
        raise ValueError(f"a limit has no member {unknown[0]!r}; use {', '.join(known)}")
    return Limit(**{name: _member(name, found) for name, found in given.items()})


def _member(name: str, found: object) -> Any:
    if name == "key":
        if not isinstance(found, str):
            raise ValueError("key must be text")
        return found
    wanted = int if name in ("concurrency", "burst") else int | float
    if isinstance(found, bool) or not isinstance(found, wanted):
        raise ValueError(f"{name} must be a number")
    return found
