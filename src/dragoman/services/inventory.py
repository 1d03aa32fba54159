"""The inventory in force: what the settings and files say, and what was changed at run time.

Changes are transactions: a list of operations that is applied whole or not at all, gets the next
version, is kept on disk before it is told to anybody, and can be undone by its version. What the
files say is never written to.
"""

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from dragoman.model.value import value
from dragoman.services.inventory_files import (
    BrokenInventory,
    InventorySource,
    has_changed,
    merge,
    read_source,
)
from dragoman.services.masks import bare_secrets

_FILE: Final = "inventory.json"
_LARGEST: Final = 1024 * 1024

Steps = tuple[str, ...]


class InventoryRefused(Exception):
    """A change that cannot be made. The message says why."""


@value
class InventoryOperation:
    """Set or delete what stands at a path of every worker whose name matches a pattern."""

    op: str
    pattern: str
    path: Steps
    value: Any = None

    def told(self) -> dict[str, Any]:
        """Write it as a plain object."""
        said = {"op": self.op, "pattern": self.pattern, "path": list(self.path)}
        return said | ({"value": self.value} if self.op == "set" else {})


@value
class InventoryChange:
    """One transaction."""

    version: int
    at: float
    by: str
    operations: tuple[InventoryOperation, ...]
    #: The version that undid it; 0: it stands.
    undone: int = 0
    #: The version it undid; 0: it undid none.
    undoes: int = 0

    def told(self) -> dict[str, Any]:
        """Write it as a plain object."""
        return {
            "version": self.version,
            "at": self.at,
            "by": self.by,
            "operations": [o.told() for o in self.operations],
            "undone": self.undone,
            "undoes": self.undoes,
        }


class Inventory:
    """Answers for workers, takes changes, and keeps the last good files in force."""

    def __init__(
        self,
        data: Path,
        path: Path | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._file = data / _FILE
        self._path = path
        self._settings = tuple((settings or {}).items())
        self._lock = threading.Lock()
        self._source = read_source(path) if path else InventorySource()
        self._changes: list[InventoryChange] = _load(self._file)
        #: What is wrong with the files now; empty: they are the ones in force.
        self.trouble = ""

    @property
    def version(self) -> int:
        """How many changes were made."""
        return self._changes[-1].version if self._changes else 0

    @property
    def others(self) -> Mapping[str, Any]:
        """What the files say that is not for workers: broker, topology, resources, ..."""
        return self._source.others

    # --- reading ------------------------------------------------------------------------------

    def of(self, name: str) -> dict[str, Any] | None:
        """Return the merged object of a worker, or None if nothing is said of it."""
        found: dict[str, Any] | None = None
        for pattern, said in (*self._settings, *self._source.workers):
            if fnmatchcase(name, pattern):
                found = merge(found or {}, said)
        for operation in self._standing():
            if fnmatchcase(name, operation.pattern):
                found = _apply(found or {}, operation)
        return found

    def patterns(self) -> list[str]:
        """Return every pattern that something is said of, in order."""
        said = [p for p, _ in (*self._settings, *self._source.workers)]
        return list(dict.fromkeys([*said, *(o.pattern for o in self._standing())]))

    def history(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the last changes, the newest first."""
        return [change.told() for change in reversed(self._changes[-limit:])]

    def _standing(self) -> Iterable[InventoryOperation]:
        return (o for c in self._changes if not c.undone for o in c.operations)

    # --- files --------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Read the files again if one has changed; tell whether they are new. Blocks on disk."""
        if self._path is None or not has_changed(self._source):
            return False
        return self.reload()

    def reload(self) -> bool:
        """Read the files again. Raises `BrokenInventory`; the last good ones stay in force."""
        if self._path is None:
            return False
        with self._lock:
            try:
                self._source = read_source(self._path)
            except BrokenInventory as error:
                self.trouble = str(error)
                raise
            self.trouble = ""
        return True

    # --- changing -----------------------------------------------------------------------------

    def change(
        self, operations: Sequence[Any], by: str, at: float, expected: int | None = None
    ) -> InventoryChange:
        """Make a change. Raises `InventoryRefused` and leaves everything as it is. Blocks on
        disk.
        """
        with self._lock:
            self._check_version(expected)
            made = tuple(_read_operation(said) for said in operations)
            if not made:
                raise InventoryRefused("a change has at least one operation")
            change = InventoryChange(self.version + 1, at, by, made)
            self._keep([*self._changes, change])
            return change

    def undo(self, version: int | None, by: str, at: float) -> InventoryChange:
        """Take a change back: the given one, or the last that stands. Blocks on disk."""
        with self._lock:
            standing = [c for c in self._changes if not c.undone and not c.undoes]
            found = [c for c in standing if version in (None, c.version)]
            if not found:
                what = "change" if version is None else f"change {version}"
                raise InventoryRefused(f"there is no {what} that stands")
            last, number = found[-1], self.version + 1
            kept = [_undone(c, number) if c is last else c for c in self._changes]
            change = InventoryChange(number, at, by, (), undoes=last.version)
            self._keep([*kept, change])
            return InventoryChange(number, at, by, last.operations, undoes=last.version)

    def _check_version(self, expected: int | None) -> None:
        if expected is not None and expected != self.version:
            raise InventoryRefused(
                f"the inventory is at version {self.version}, not {expected}; look again"
            )

    def _keep(self, changes: list[InventoryChange]) -> None:
        """Put the changes on disk, whole or not at all, before they are in force."""
        text = json.dumps([c.told() for c in changes])
        if len(text) > _LARGEST:
            raise InventoryRefused(
                "so many changes belong into the files; write them there and undo these"
            )
        part = self._file.with_suffix(".part")
        with part.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._file)
        self._changes = changes


def _undone(change: InventoryChange, number: int) -> InventoryChange:
    return InventoryChange(
        change.version, change.at, change.by, change.operations, number, change.undoes
    )


def _read_operation(said: Any) -> InventoryOperation:
    if not isinstance(said, Mapping):
        raise InventoryRefused("an operation is an object of op, pattern, path and value")
    unknown = set(said) - {"op", "pattern", "path", "value"}
    if unknown:
        raise InventoryRefused(f"an operation has no {', '.join(sorted(map(str, unknown)))}")
    op, pattern = said.get("op"), said.get("pattern")
    if op not in ("set", "delete"):
        raise InventoryRefused(f"an operation is set or delete, not {op!r}")
    if not isinstance(pattern, str) or not pattern or not pattern.isprintable():
        raise InventoryRefused("an operation needs a pattern of worker names")
    path = read_path(said.get("path", ""))
    if op == "delete":
        return InventoryOperation(op, pattern, path)
    if "value" not in said:
        raise InventoryRefused("set needs a value")
    _check_value(said["value"], path)
    return InventoryOperation(op, pattern, path, said["value"])


def _check_value(said: Any, path: Steps) -> None:
    if not path and not isinstance(said, Mapping):
        raise InventoryRefused("the whole of a worker's inventory is an object")
    try:
        json.dumps(said, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InventoryRefused(f"the value has no JSON form: {error}") from None
    places = bare_secrets(said, ".".join(path))
    if places:
        words = "write it as secret:env:NAME or secret:file:PATH and keep the value there"
        raise InventoryRefused(f"{', '.join(places)}: looks like a secret; {words}")


def read_path(said: Any) -> Steps:
    """Read a path: text with dots, or a list of names. Raises `InventoryRefused`."""
    steps = [s for s in said.split(".") if s] if isinstance(said, str) else said
    if not isinstance(steps, list | tuple) or not all(isinstance(s, str) and s for s in steps):
        raise InventoryRefused("a path is text with dots, or a list of names")
    return tuple(steps)


def find(said: Any, path: Steps) -> Any:
    """Return what stands at a path. Raises `InventoryRefused` if nothing does."""
    for step in path:
        if not isinstance(said, Mapping) or step not in said:
            raise InventoryRefused(f"nothing stands at {'.'.join(path)}")
        said = said[step]
    return said


def _apply(said: Mapping[str, Any], operation: InventoryOperation) -> dict[str, Any]:
    """Return an object with an operation done to it; the old one stays as it was."""
    made, path = dict(said), operation.path
    if not path:
        return merge(made, operation.value) if operation.op == "set" else {}
    step, rest = path[0], path[1:]
    below = made.get(step)
    if rest:
        if operation.op == "delete" and not isinstance(below, Mapping):
            return made
        deeper = InventoryOperation(operation.op, operation.pattern, rest, operation.value)
        made[step] = _apply(below if isinstance(below, Mapping) else {}, deeper)
    elif operation.op == "set":
        made[step] = operation.value
    else:
        made.pop(step, None)
    return made


def _load(file: Path) -> list[InventoryChange]:
    try:
        text = file.read_text()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BrokenInventory(f"{file}: {error.strerror}") from None
    try:
        return [_read_change(said) for said in json.loads(text)]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenInventory(f"{file}: not the changes this program wrote: {error}") from None


def _read_change(said: Mapping[str, Any]) -> InventoryChange:
    operations = tuple(
        InventoryOperation(o["op"], o["pattern"], tuple(o["path"]), o.get("value"))
        for o in said["operations"]
    )
    return InventoryChange(
        said["version"], said["at"], said["by"], operations, said["undone"], said["undoes"]
    )
