"""Jinja2 templates and parsed files with bounds: neither may exhaust the broker.

An operator writes inventory files, but often from parts that others supply.
"""

from collections.abc import Mapping
from typing import Any, Final

from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

#: Characters of a rendered file.
MOST_TEXT: Final = 16 * 1024 * 1024
#: Values in a parsed file, with every alias expanded.
MOST_VALUES: Final = 1_000_000
_DEEPEST: Final = 100
_LARGEST_FACTOR: Final = 1_000_000
_LARGEST_EXPONENT: Final = 1000


class TooLarge(Exception):
    """A file is over a bound; the message names the bound."""


class BoundedEnvironment(SandboxedEnvironment):
    """A sandbox in which arithmetic cannot make huge values; formats with `%` are refused."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> object:
        """Check the size of a product or a power."""
        if operator == "%" and isinstance(left, str | bytes):
            raise SecurityError("formats with % are not allowed; use {{ }}")
        if operator == "*" and _is_over(left, right):
            raise SecurityError("a product is too large")
        if operator == "**" and (abs(left) > _LARGEST_EXPONENT or right > _LARGEST_EXPONENT):
            raise SecurityError("a power is too large")
        return super().call_binop(context, operator, left, right)


def _is_over(left: Any, right: Any) -> bool:
    sizes = [len(x) if hasattr(x, "__len__") else abs(x) for x in (left, right)]
    return hasattr(left, "__len__") != hasattr(right, "__len__") and (
        sizes[0] * sizes[1] > _LARGEST_FACTOR
    )


def render(text: str, variables: Mapping[str, object]) -> str:
    """Render a template. Raises TooLarge, or Jinja's own errors."""
    pieces: list[str] = []
    size = 0
    environment = BoundedEnvironment(keep_trailing_newline=True)
    for piece in environment.from_string(text).generate(**variables):
        size += len(piece)
        if size > MOST_TEXT:
            raise TooLarge(f"the rendered file is over {MOST_TEXT} characters")
        pieces.append(piece)
    return "".join(pieces)


def check_size(tree: object) -> None:
    """Raise TooLarge if a parsed file is too deep or has too many values, aliases expanded."""
    count, level = 0, [tree]
    for _ in range(_DEEPEST):
        count += len(level)
        if count > MOST_VALUES:
            raise TooLarge(f"the file has over {MOST_VALUES} values, aliases expanded")
        level = [item for each in level for item in _items(each)]
        if not level:
            return
    raise TooLarge(f"the file is nested over {_DEEPEST} levels")


def _items(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []
