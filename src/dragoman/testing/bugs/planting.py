"""How a bug is planted: something of the house is replaced for a while, and put back.

What must not live here: any bug. Those are with the others of their theme.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

Bug = Callable[[], AbstractContextManager[None]]


class Bugs(dict[str, Bug]):
    """Planted bugs by name. Each theme has its own list: to import one changes no other."""

    def add(self, plant: Callable[[], Iterator[None]]) -> Bug:
        """Put a planted bug on the list, under its own name."""
        planted = contextmanager(plant)
        self[plant.__name__] = planted
        return planted


@contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Let `owner.name` (or `owner[name]`) be something else for a while."""
    is_table = isinstance(owner, dict)
    old = owner[name] if is_table else owner.__dict__[name]
    put = owner.__setitem__ if is_table else lambda key, what: setattr(owner, key, what)
    put(name, new)
    try:
        yield
    finally:
        put(name, old)
