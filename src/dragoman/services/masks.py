"""What must not be shown: secrets, told by the name they go by or by how they are written.

A secret is best written as a reference, `secret:env:NAME` or `secret:file:PATH`: the value then is
in the environment or the file of the broker and nowhere else. Whatever stands under a name that
sounds like a secret is treated as one too, for inventories that were written for others.
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
    """A reference that leads nowhere. The message names it, never a value."""


def is_secret_name(name: str) -> bool:
    """Tell whether a key's name says that its value is a secret."""
    return bool(_NAMES.search(name))


def is_reference(said: Any) -> bool:
    """Tell whether a value stands for a secret kept elsewhere."""
    return isinstance(said, str) and _REFERENCE.fullmatch(said) is not None


def masked(said: Any, name: str = "") -> Any:
    """Return the same with every secret replaced."""
    return _changed(said, name, lambda secret: MASK)


def revealed(said: Any) -> Any:
    """Return the same with every reference replaced by what it leads to. Raises
    `SecretNotFound`.
    """
    return _changed(said, "", lambda secret: resolve(secret) if is_reference(secret) else secret)


def has_secrets(said: Any) -> bool:
    """Tell whether anything in it must not be shown."""
    found: list[Any] = []
    _changed(said, "", found.append)
    return bool(found)


def bare_secrets(said: Any, path: str = "") -> list[str]:
    """Name the places where a secret is written out instead of being referred to."""
    if isinstance(said, Mapping):
        found = [bare_secrets(v, f"{path}.{k}".lstrip(".")) for k, v in said.items()]
        return [place for each in found for place in each]
    if isinstance(said, list):
        return [p for i, v in enumerate(said) for p in bare_secrets(v, f"{path}.{i}")]
    is_bare = is_secret_name(path.rpartition(".")[2]) and isinstance(said, str)
    return [path] if is_bare and said and not is_reference(said) else []


def resolve(reference: str) -> str:
    """Return what a reference leads to. Raises `SecretNotFound`."""
    found = _REFERENCE.fullmatch(reference)
    assert found is not None
    kind, where = found[1], found[2]
    try:
        return os.environ[where] if kind == "env" else Path(where).read_text().rstrip("\n")
    except (KeyError, OSError, ValueError):
        raise SecretNotFound(f"{reference} leads to nothing that can be read") from None


def _changed(said: Any, name: str, change: Callable[[Any], Any]) -> Any:
    if isinstance(said, Mapping):
        return {key: _changed(item, str(key), change) for key, item in said.items()}
    if isinstance(said, list | tuple):
        return [_changed(item, name, change) for item in said]
    is_secret = is_reference(said) or (is_secret_name(name) and isinstance(said, str | int | bytes)
                                       and not isinstance(said, bool))  # fmt: skip
    return change(said) if is_secret and said != "" else said
