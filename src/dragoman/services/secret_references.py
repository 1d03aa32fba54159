"""References to secrets, and the places that a reference may name.

Only the operator's inventory files and settings have references: `secret:env:NAME` or
`secret:file:PATH`. They are marked when these are read. A value that a client sets at run time is
data and never becomes a reference: otherwise a client could read any file of the broker.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dragoman.model.value import value

#: A larger file is no secret.
LARGEST: Final = 64 * 1024
_REFERENCE: Final = re.compile(r"secret:(env|file):(.+)", re.DOTALL)


class SecretNotFound(Exception):
    """A reference cannot be resolved. The message names the reference, never a value."""


@value
class SecretReference:
    """A secret in the broker's environment or in a file of the broker."""

    kind: str
    where: str

    def __str__(self) -> str:
        return f"secret:{self.kind}:{self.where}"


def mark_references(tree: object) -> Any:
    """Return a copy of an operator's object, with its references as `SecretReference`."""
    if isinstance(tree, Mapping):
        return {key: mark_references(item) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [mark_references(item) for item in tree]
    found = _REFERENCE.fullmatch(tree) if isinstance(tree, str) else None
    return tree if found is None else SecretReference(found[1], found[2])


class SecretSources:
    """The folders and the environment variables that references may name; by default none."""

    def __init__(self, folders: Iterable[Path] = (), prefix: str = "") -> None:
        self._folders = tuple(Path(os.path.realpath(folder)) for folder in folders)
        self._prefix = prefix

    def revealed(self, tree: object) -> object:
        """Return a copy with every reference resolved. Raises `SecretNotFound`."""
        if isinstance(tree, Mapping):
            return {key: self.revealed(item) for key, item in tree.items()}
        if isinstance(tree, list):
            return [self.revealed(item) for item in tree]
        return self.resolve(tree) if isinstance(tree, SecretReference) else tree

    def resolve(self, reference: SecretReference) -> str:
        """Return the value of a reference. Raises `SecretNotFound`."""
        read = self._variable if reference.kind == "env" else self._file
        try:
            return read(reference)
        except (KeyError, OSError, ValueError):
            raise SecretNotFound(f"cannot read {reference}") from None

    def _variable(self, reference: SecretReference) -> str:
        if not self._prefix or not reference.where.startswith(self._prefix):
            raise _refused(reference, "environment", self._prefix or "no prefix")
        return os.environ[reference.where]

    def _file(self, reference: SecretReference) -> str:
        path = Path(os.path.realpath(reference.where))
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise _refused(reference, "folders", ", ".join(map(str, self._folders)) or "no folder")
        # The path is resolved: a link that replaces it after the check must not be followed.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError
        return content.decode().rstrip("\n")


def _refused(reference: SecretReference, setting: str, allowed: str) -> SecretNotFound:
    return SecretNotFound(f"{reference} is not allowed: [secrets] {setting} allows {allowed}")
