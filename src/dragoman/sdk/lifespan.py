"""What tasks share: the value of a lifespan, values that the worker provides, middleware.

A lifespan is a function that returns a context manager, plain or async. It is entered before the
first task runs and left after the last one. A task gets a value by the type of its parameter. One
without a value is a pair of hooks, for start and stop.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, get_args, get_type_hints

from dragoman.sdk.context import JobContext
from dragoman.sdk.middleware import Middleware

#: Returns a context manager whose value tasks get.
LifespanFunction = Callable[[], AbstractContextManager[Any] | AbstractAsyncContextManager[Any]]


class Lifespan:
    """The values that tasks get by type, while it is entered."""

    def __init__(
        self,
        function: LifespanFunction | None = None,
        provided: Sequence[object] = (),
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.function = function
        #: Code around each job.
        self.middleware = tuple(middleware)
        self.provided = tuple(provided)
        #: The values by their type; the lifespan's own only while it is entered.
        self.values: Mapping[type, Any] = {type(one): one for one in self.provided}
        self._type = _yielded_type(function) if function is not None else None
        self._entered: Any = None
        _check(self.types, len(self.provided) + (self._type is not None))

    @property
    def types(self) -> frozenset[type]:
        """The types of parameters that get a value instead of an argument."""
        own = () if self._type is None else (self._type,)
        return frozenset((*map(type, self.provided), *own))

    @property
    def is_empty(self) -> bool:
        """Whether tasks share nothing."""
        return self.function is None and not self.provided and not self.middleware

    @property
    def is_entered(self) -> bool:
        """Whether it must be left."""
        return self._entered is not None

    async def enter(self) -> None:
        """Enter the lifespan. Raises what it raises."""
        if self.function is None:
            return
        entered = self.function()
        if isinstance(entered, AbstractAsyncContextManager):
            found = await entered.__aenter__()
        else:
            found = entered.__enter__()
        self._entered = entered
        if self._type is not None:
            self.values = {**self.values, self._type: found}

    async def leave(self) -> None:
        """Leave the lifespan, if it was entered."""
        entered, self._entered = self._entered, None
        if isinstance(entered, AbstractAsyncContextManager):
            await entered.__aexit__(None, None, None)
        elif entered is not None:
            entered.__exit__(None, None, None)


def _yielded_type(function: LifespanFunction) -> type | None:
    """Return the type of a lifespan's value, from its annotation; None if it has no value."""
    returned = get_type_hints(inspect.unwrap(function)).get("return")
    found = (*get_args(returned), object())[0]
    if found in (None, type(None)):
        return None
    if not isinstance(found, type):
        raise ValueError(
            f"the lifespan {getattr(function, '__name__', function)!s} must say the type of its "
            "value, as in `-> Iterator[Database]`: tasks get the value by that type; "
            "`Iterator[None]` if it has none"
        )
    return found


def _check(types: frozenset[type], count: int) -> None:
    if len(types) < count:
        raise ValueError("two values that tasks get have the same type; wrap one in a class")
    plain = types & {bool, int, float, str, bytes, list, dict, tuple, set, JobContext}
    if plain:
        names = ", ".join(sorted(one.__name__ for one in plain))
        raise ValueError(f"tasks cannot get a value by the type {names}; wrap it in a class")
