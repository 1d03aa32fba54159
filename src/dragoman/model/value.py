"""Value classes: cheap at run time, frozen for the type checker.

A frozen dataclass costs about five times as much to create, and the hot path creates several values
per message. Instead, mypy rejects assignment to a field.
"""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from dragoman.model.setting import setting

__all__ = ["field", "value"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field, setting))
def value(cls: type[T]) -> type[T]:
    """Make `cls` a value: positional and keyword construction, equality, no assignment.

    Values hash by content, so they may be keys and defaults of other values. Only the type checker
    prevents an assignment that would change the hash.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
