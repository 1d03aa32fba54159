"""Contexts: named brokers of a user, with URL, credentials and output format.

They are in `contexts.json` in the user's configuration folder. A context only fills in what neither
a flag nor an environment variable gives.
"""

import json
import os
from pathlib import Path
from typing import Final

from dragoman.security.files import replace_file

#: The variables that a context sets, by its members.
VARIABLES: Final = {"url": "DRAGOMAN_URL", "key": "DRAGOMAN_KEY_FILE", "json": "DRAGOMAN_JSON"}
_PRIVATE: Final = 0o600


def contexts_file() -> Path:
    """Return the path of the user's contexts."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "dragoman" / "contexts.json"


class Contexts:
    """The contexts of a user. Changes are written at once."""

    def __init__(self, path: Path) -> None:
        """Read the file, if there is one. Raises ValueError that names it."""
        self.path = path
        self.current = ""
        self.by_name: dict[str, dict[str, object]] = {}
        if path.is_file():
            try:
                found = json.loads(path.read_text())
                self.current, self.by_name = str(found["current"]), dict(found["contexts"])
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{path} is not a file of contexts; remove it") from None

    def get(self, name: str) -> dict[str, object]:
        """Return a context. Raises ValueError with the names that exist."""
        if name not in self.by_name:
            known = ", ".join(self.by_name) or "none; make one with `dragoman context add`"
            raise ValueError(f"no context {name!r}; there are: {known}")
        return self.by_name[name]

    def add(self, name: str, members: dict[str, object]) -> None:
        """Add or replace a context; the first one becomes the current one."""
        self.by_name[name] = members
        self.current = self.current or name
        self._write()

    def use(self, name: str) -> None:
        """Make a context the current one."""
        self.get(name)
        self.current = name
        self._write()

    def remove(self, name: str) -> None:
        """Remove a context."""
        self.get(name)
        del self.by_name[name]
        self.current = "" if self.current == name else self.current
        self._write()

    def apply(self, name: str = "") -> None:
        """Set the variables of a context, or of the current one, that are not set yet."""
        chosen = name or self.current
        members = self.get(chosen) if chosen else {}
        for member, variable in VARIABLES.items():
            if members.get(member) and variable not in os.environ:
                os.environ[variable] = str(members[member])

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"current": self.current, "contexts": self.by_name}, indent=2) + "\n"
        replace_file(self.path, text.encode(), _PRIVATE)
