"""Options of a job that a client may set: how they are written in messages and become terms.

Every dialect with room for a JSON object carries the same members. The settings of a service and
the retries of a worker's task apply where a dialect has no room.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from dragoman.model.limit import read_limit
from dragoman.model.parent import read_parent
from dragoman.model.retry import read_retry
from dragoman.model.terms import Terms
from dragoman.model.unique import read_unique
from dragoman.model.webhook import read_hook

#: The longest delay in seconds: ten years.
LONGEST_DELAY: Final = 315_360_000.0
_MOST_ATTEMPTS: Final = 1000


def apply_options(terms: Terms, given: object) -> Terms:
    """Return terms with a client's options. Raises ValueError with a message for the client."""
    if not given:
        return terms
    if not isinstance(given, Mapping):
        raise ValueError(f"options must be an object with {', '.join(OPTIONS)}")
    if unknown := [str(name) for name in given if name not in OPTIONS]:
        raise ValueError(f"unknown option {unknown[0]!r}; use {', '.join(OPTIONS)}")
    changes = {}
    for name, found in given.items():
        member, read = OPTIONS[name]
        try:
            changes[member] = read(found)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return replace(terms, **changes)


def _number(least: float, most: float) -> Callable[[object], float]:
    def read(given: object) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise ValueError("must be a number")
        if not least <= given <= most:
            raise ValueError(f"must be {least:g} to {most:g}")
        return float(given)

    return read


def _count(given: object) -> int:
    if type(given) is not int or not 1 <= given <= _MOST_ATTEMPTS:
        raise ValueError(f"must be a whole number from 1 to {_MOST_ATTEMPTS}")
    return given


#: Name in a message -> member of the terms, and how it is read.
OPTIONS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "retries": ("retry", read_retry),
    "delay": ("delay", _number(0, LONGEST_DELAY)),
    "at": ("not_before", _number(0, 1e11)),
    "run_timeout": ("run_timeout", _number(0.001, LONGEST_DELAY)),
    "queue_timeout": ("queue_timeout", _number(0.001, LONGEST_DELAY)),
    "unique": ("unique", read_unique),
    "limit": ("limit", read_limit),
    "max_attempts": ("max_attempts", _count),
    "parent": ("parent", read_parent),
    "webhook": ("webhook", read_hook),
    "result_ttl": ("result_ttl", _number(0.001, LONGEST_DELAY)),
}
