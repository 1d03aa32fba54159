"""Which values of the inventory are secrets, and masking them.

A secret is declared: as a reference in an operator's file, or by a path in `secrets`. Values under
keys that look like secrets are masked, too. That is a safety net for undeclared ones, and a
declaration `!PATH` takes a path out of it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Final

from dragoman.services.secret_references import SecretReference

MASK: Final = "***"
_SECRET_WORDS: Final = frozenset(
    {"password", "passwd", "passphrase", "passwort", "pass", "pwd", "pw", "psk", "secret", "token"}
    | {"jwt", "community", "credential", "cred", "apikey", "pin", "otp", "pat"}
)
#: Endings of longer words without a separator: `dbpassword`.
_SECRET_ENDINGS: Final = ("password", "passwd", "passphrase", "secret", "token", "apikey")
#: A `key` is a secret if one of these words is before it.
_KEY_KINDS: Final = frozenset(
    {"api", "private", "shared", "secret", "access", "ssh", "auth", "encryption", "signing"}
    | {"session", "account"}
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

Path = tuple[str, ...]


class Masks:
    """Decides about paths; a path without dots means a key at any depth."""

    def __init__(self, declared: Iterable[str] = ()) -> None:
        declared = tuple(declared)
        self._secret = tuple(d.lower() for d in declared if not d.startswith("!"))
        self._shown = tuple(d[1:].lower() for d in declared if d.startswith("!"))

    def is_declared(self, path: Path) -> bool:
        """Tell whether a path is declared a secret."""
        return _matches(path, self._secret)

    def is_secret(self, path: Path) -> bool:
        """Tell whether the value at a path is a secret."""
        if self.is_declared(path):
            return True
        name = next((step for step in reversed(path) if not step.isdigit()), "")
        return is_secret_name(name) and not _matches(path, self._shown)

    def masked(self, tree: object, path: Path = ()) -> Any:
        """Return a copy of the value at a path with every secret replaced by a mask."""
        return self._changed(tree, path, lambda secret, at: MASK)

    def has_secrets(self, tree: object) -> bool:
        """Tell whether a worker's inventory contains a secret."""
        return bool(self.secret_paths(tree))

    def secret_paths(self, tree: object, path: Path = ()) -> list[str]:
        """Return the paths of all secrets at and below a path."""
        found: list[str] = []
        self._changed(tree, path, lambda secret, at: found.append(".".join(at)))
        return found

    def _changed(
        self, tree: object, path: Path, change: Callable[[object, Path], object]
    ) -> object:
        if isinstance(tree, SecretReference) or (tree not in ("", None) and self._is_whole(path)):
            return change(tree, path)
        if isinstance(tree, Mapping):
            return {k: self._changed(item, (*path, str(k)), change) for k, item in tree.items()}
        if isinstance(tree, list | tuple):
            return [self._changed(x, (*path, str(i)), change) for i, x in enumerate(tree)]
        is_value = isinstance(tree, str | int | float | bytes) and not isinstance(tree, bool)
        return change(tree, path) if is_value and tree != "" and self.is_secret(path) else tree

    def _is_whole(self, path: Path) -> bool:
        """Tell whether everything at a path is secret: declared paths include what is below."""
        return bool(path) and self.is_declared(path)


def is_secret_name(name: str) -> bool:
    """Tell whether a key looks like that of a secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    joined = [first + second for first, second in pairwise(words)]
    return any(_is_secret_word(word) for word in (*words, *joined))


def _is_secret_word(word: str) -> bool:
    singular = word.removesuffix("s")
    return (
        not _SECRET_WORDS.isdisjoint((word, singular))
        or singular.endswith(_SECRET_ENDINGS)
        or (singular.endswith("key") and singular.removesuffix("key") in _KEY_KINDS)
    )


def _matches(path: Path, globs: tuple[str, ...]) -> bool:
    whole, last = ".".join(path).lower(), path[-1].lower() if path else ""
    return any(fnmatchcase(whole if "." in glob else last, glob) for glob in globs)
