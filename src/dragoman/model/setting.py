"""Declares a setting at its use: its default, its meaning and its limits, in one place.

A field of a value class that is declared with `setting` can be set by an operator. The settings of
the broker, `dragoman settings` and `docs/settings.md` are made from these declarations.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
def setting(*, help: str, default: T, **limits: float) -> T: ...


@overload
def setting(*, help: str, default_factory: Callable[[], T], **limits: float) -> T: ...


def setting(
    *, help: str, default: object = MISSING, default_factory: Any = MISSING, **limits: float
) -> object:
    """Declare a field that an operator can set.

    Args:
        help: what it sets, with the unit, as one short sentence.
        default: the value if nobody sets it.
        default_factory: makes the default, if that is a container.
        limits: `gt`, `ge` or `min_length`.

    """
    metadata = {"description": help, **limits}
    return field(default=default, default_factory=default_factory, metadata=metadata)


def declared_settings(kind: type) -> "dict[str, Field[object]]":
    """Return the fields of a value class that an operator can set, by name."""
    return {f.name: f for f in fields(kind) if "description" in f.metadata}
