"""How values are made: cheap slots at run time, frozen to the type checker.

A truly frozen dataclass costs about five times as much to create, and the hot path
creates several values per message. mypy rejects assignment to a field instead.
"""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["field", "value"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make `cls` a value: positional and keyword construction, equality, no assignment.

    Values hash by content, so they may be keys and defaults of other values. Nothing but the type
    checker stands between a value and a change that would make its hash a lie.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
