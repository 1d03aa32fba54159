"""Secrets of the inventory: which values are secrets, masking them, and resolving references.

A secret is best written as a reference, `secret:env:NAME` or `secret:file:PATH`: only the broker's
environment or the file then holds the value. A value under a key that looks like a secret counts as
one, too, for inventories that were written for other programs.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

MASK: Final = "***"
_NAMES: Final = re.compile(
    r"(?:^|[_\W])(?:password|passwd|passphrase|secret|token|api_?key|private_?key|shared_?key"
    r"|secret_?key|community|credentials?)s?(?:$|[_\W])",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"secret:(env|file):(.+)", re.DOTALL)


class SecretNotFound(Exception):
    """A reference cannot be resolved. The message names the reference, never a value."""


def is_secret_name(name: str) -> bool:
    """Tell whether a key's name says that its value is a secret."""
    return bool(_NAMES.search(name))


def is_reference(tree: Any) -> bool:
    """Tell whether a value is a reference to a secret."""
    return isinstance(tree, str) and _REFERENCE.fullmatch(tree) is not None


def masked(tree: Any, name: str = "") -> Any:
    """Return a copy with every secret replaced by a mask."""
    return _changed(tree, name, lambda secret: MASK)


def revealed(tree: Any) -> Any:
    """Return a copy with every reference resolved. Raises `SecretNotFound`."""
    return _changed(tree, "", lambda secret: resolve(secret) if is_reference(secret) else secret)


def has_secrets(tree: Any) -> bool:
    """Tell whether it contains a secret."""
    found: list[Any] = []
    _changed(tree, "", found.append)
    return bool(found)


def bare_secrets(tree: Any, path: str = "") -> list[str]:
    """Return the paths of secrets that are written as plain values."""
    if isinstance(tree, Mapping):
        found = [bare_secrets(v, f"{path}.{k}".lstrip(".")) for k, v in tree.items()]
        return [place for each in found for place in each]
    if isinstance(tree, list):
        return [p for i, v in enumerate(tree) for p in bare_secrets(v, f"{path}.{i}")]
    is_bare = is_secret_name(path.rpartition(".")[2]) and isinstance(tree, str)
    return [path] if is_bare and tree and not is_reference(tree) else []


def resolve(reference: str) -> str:
    """Return the value of a reference. Raises `SecretNotFound`."""
    found = _REFERENCE.fullmatch(reference)
    assert found is not None
    kind, where = found[1], found[2]
    try:
        return os.environ[where] if kind == "env" else Path(where).read_text().rstrip("\n")
    except (KeyError, OSError, ValueError):
        raise SecretNotFound(f"cannot read {reference}") from None


def _changed(tree: Any, name: str, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, Mapping):
        return {key: _changed(item, str(key), change) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [_changed(item, name, change) for item in tree]
    is_secret = is_reference(tree) or (is_secret_name(name) and isinstance(tree, str | int | bytes)
                                       and not isinstance(tree, bool))  # fmt: skip
    return change(tree) if is_secret and tree != "" else tree
