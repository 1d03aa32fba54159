"""Unique jobs: while one job of a key waits, runs or is recent, the next one is refused, or
replaces it.
"""

import json
from dataclasses import fields
from typing import Final

from dragoman.model.value import value

#: Until when a job keeps its key: it is dispatched, or it ends.
UNTIL: Final = ("start", "end")
_LONGEST_KEY: Final = 200
#: The longest period and quiet time in seconds: a day.
_LONGEST: Final = 86_400.0


@value
class Unique:
    """What a job has alone, until when, and what happens to the next job with the same key."""

    key: str
    #: `start`: a second job is refused while the first is queued; `end`: also while it runs.
    until: str = "end"
    #: A second job is refused so many seconds after the submission of the first, in any case.
    period: float = 0.0
    #: Debounce: the last job wins. It replaces one that has not started, and starts itself after
    #: so many quiet seconds. 0: the first job wins.
    quiet: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not 0 < len(self.key) <= _LONGEST_KEY or not self.key.isprintable():
            raise ValueError(f"key must be 1 to {_LONGEST_KEY} printable characters")
        if self.until not in UNTIL:
            raise ValueError(f"until must be {' or '.join(UNTIL)}")
        if not (0 <= self.period <= _LONGEST and 0 <= self.quiet <= _LONGEST):
            raise ValueError("period and quiet must be 0 s to a day")
        if self.quiet and self.period:
            raise ValueError("set either period or quiet")


def unique_members(unique: Unique) -> dict[str, object]:
    """Return the key and the members that differ from the defaults, for JSON."""
    found = {f.name: getattr(unique, f.name) for f in fields(Unique)}
    plain = Unique(unique.key)
    return {k: v for k, v in found.items() if k == "key" or v != getattr(plain, k)}


def read_unique(given: object) -> Unique:
    """Read an object with members of `Unique`, a key alone, or the JSON of the object."""
    if isinstance(given, str):
        given = json.loads(given) if given.startswith("{") else {"key": given}
    if not isinstance(given, dict):
        raise ValueError("must be a key, or an object such as {key: report:42, until: start}")
    known = {f.name: f for f in fields(Unique)}
    if unknown := [str(name) for name in given if name not in known]:
        raise ValueError(f"there is no member {unknown[0]!r}; use {', '.join(known)}")
    for name, found in given.items():
        is_text, is_number = isinstance(found, str), isinstance(found, int | float)
        if isinstance(found, bool) or not (is_text if name in ("key", "until") else is_number):
            raise ValueError(f"{name} must be {'text' if name in ('key', 'until') else 'a number'}")
    if "key" not in given:
        raise ValueError("name a key")
    return Unique(**given)
