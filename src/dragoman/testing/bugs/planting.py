"""How a bug is planted: replace a function or table entry, then restore it. No bugs live here."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

Bug = Callable[[], AbstractContextManager[None]]


class Bugs(dict[str, Bug]):
    """Planted bugs by name. Each module has its own list, so that imports stay independent."""

    def add(self, plant: Callable[[], Iterator[None]]) -> Bug:
        """Add a planted bug under its own name."""
        planted = contextmanager(plant)
        self[plant.__name__] = planted
        return planted


@contextmanager
def replaced(owner: Any, name: str, new: object) -> Iterator[None]:
    """Replace `owner.name` (or `owner[name]`) while the block runs."""
    is_table = isinstance(owner, dict)
    old = owner[name] if is_table else owner.__dict__[name]
    put = owner.__setitem__ if is_table else lambda key, what: setattr(owner, key, what)
    put(name, new)
    try:
        yield
    finally:
        put(name, old)
