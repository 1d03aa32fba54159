"""The inventory in force: settings, files, and changes at run time.

Changes are transactions: a list of operations, applied all or none. A change gets the next
version, is on disk before it is announced, and can be undone by its version. The inventory files
are never written.
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
from dragoman.services.masks import Masks
from dragoman.services.secret_references import mark_references

_FILE: Final = "inventory.json"
_LARGEST: Final = 1024 * 1024

Steps = tuple[str, ...]


class InventoryRefused(Exception):
    """A change that cannot be made. The message gives the reason."""


@value
class InventoryOperation:
    """Set or delete the value at a path, for every worker whose name matches a pattern."""

    op: str
    pattern: str
    path: Steps
    value: Any = None

    def as_object(self) -> dict[str, object]:
        """Return it as a JSON object."""
        row = {"op": self.op, "pattern": self.pattern, "path": list(self.path)}
        return row | ({"value": self.value} if self.op == "set" else {})


@value
class InventoryChange:
    """One transaction."""

    version: int
    at: float
    by: str
    operations: tuple[InventoryOperation, ...]
    #: The version that undid this change; 0: it is in force.
    undone: int = 0
    #: The version this change undid; 0: none.
    undoes: int = 0

    def as_object(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "version": self.version,
            "at": self.at,
            "by": self.by,
            "operations": [o.as_object() for o in self.operations],
            "undone": self.undone,
            "undoes": self.undoes,
        }


class Inventory:
    """Merges the sources for a worker, makes changes, and keeps the last good files in force."""

    def __init__(
        self,
        data: Path,
        path: Path | None = None,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self._file = data / _FILE
        self._path = path
        self._settings = tuple(mark_references(settings or {}).items())
        self._secrets = tuple(secrets)
        self._lock = threading.Lock()
        self._source = read_source(path) if path else InventorySource()
        self._changes: list[InventoryChange] = _load(self._file)
        #: The error in the current files; empty: the current files are in force.
        self.trouble = ""

    @property
    def version(self) -> int:
        """The number of the last change."""
        return self._changes[-1].version if self._changes else 0

    @property
    def others(self) -> Mapping[str, object]:
        """The part of the files that is not for workers: broker, topology, resources, ..."""
        return self._source.others

    @property
    def masks(self) -> Masks:
        """The masks of all secrets that the settings and files declare."""
        return Masks((*self._secrets, *self._source.secrets))

    # --- reading ------------------------------------------------------------------------------

    def of(self, name: str) -> dict[str, object] | None:
        """Return the merged object of a worker, or None if no pattern matches.

        Raises `BrokenInventory` if a file of this worker cannot be read.
        """
        for pattern, reason in self._source.broken:
            if fnmatchcase(name, pattern):
                raise BrokenInventory(reason)
        found: dict[str, object] | None = None
        for pattern, entry in (*self._settings, *self._source.workers):
            if fnmatchcase(name, pattern):
                found = merge(found or {}, entry)
        for operation in self._in_force():
            if fnmatchcase(name, operation.pattern):
                found = _apply(found or {}, operation)
        return found

    def by_pattern(self) -> dict[str, list[Mapping[str, object]]]:
        """Return the objects of settings and files by worker pattern, in order."""
        found: dict[str, list[Mapping[str, object]]] = {}
        for pattern, entry in (*self._settings, *self._source.workers):
            found.setdefault(pattern, []).append(entry)
        return found

    def patterns(self) -> list[str]:
        """Return every pattern that has an entry, in order."""
        patterns = [p for p, _ in (*self._settings, *self._source.workers)]
        return list(dict.fromkeys([*patterns, *(o.pattern for o in self._in_force())]))

    def history(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the last changes, the newest first, masked."""
        return [self.masked(change) for change in reversed(self._changes[-limit:])]

    def masked(self, change: InventoryChange) -> dict[str, object]:
        """Return a change as a JSON object, masked."""
        row, masks = change.as_object(), self.masks
        for operation in row["operations"]:
            if "value" in operation:
                operation["value"] = masks.masked(operation["value"], tuple(operation["path"]))
        return row

    def _in_force(self) -> Iterable[InventoryOperation]:
        return (o for c in self._changes if not c.undone for o in c.operations)

    # --- files --------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Read the files again if one has changed; tell whether one has. Blocks on disk."""
        if self._path is None or not has_changed(self._source):
            return False
        return self.reload()

    def reload(self) -> bool:
        """Read the files again. Raises `BrokenInventory`; the last good ones stay in force."""
        if self._path is None:
            return False
        with self._lock:
            try:
                source = read_source(self._path)
                _check_no_worse(self._source, source)
            except BrokenInventory as error:
                self.trouble = str(error)
                raise
            self._source = source
            self.trouble = "; ".join(reason for _, reason in source.broken)
        return True

    # --- changes ------------------------------------------------------------------------------

    def change(
        self, operations: Sequence[object], by: str, at: float, expected: int | None = None
    ) -> InventoryChange:
        """Make a change. Raises `InventoryRefused` and changes nothing. Blocks on
        disk.
        """
        with self._lock:
            self._check_version(expected)
            made = tuple(_read_operation(raw, self.masks) for raw in operations)
            if not made:
                raise InventoryRefused("a change needs at least one operation")
            change = InventoryChange(self.version + 1, at, by, made)
            self._keep([*self._changes, change])
            return change

    def undo(self, version: int | None, by: str, at: float) -> InventoryChange:
        """Undo a change: the given one, or the last in force. Blocks on disk."""
        with self._lock:
            in_force = [c for c in self._changes if not c.undone and not c.undoes]
            found = [c for c in in_force if version in (None, c.version)]
            if not found:
                what = "change" if version is None else f"change {version}"
                raise InventoryRefused(f"there is no {what} in force to undo")
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
        """Write the changes to disk atomically, then put them in force."""
        text = json.dumps([c.as_object() for c in changes])
        if len(text) > _LARGEST:
            raise InventoryRefused(
                "so many changes belong into the files; write them there and undo these"
            )
        part = self._file.with_suffix(".part")
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._file)
        self._changes = changes


def _check_no_worse(old: InventorySource, new: InventorySource) -> None:
    """Raise `BrokenInventory` if a worker's file was good before and is not now."""
    before = {pattern for pattern, _ in old.broken}
    for pattern, reason in new.broken:
        if pattern not in before:
            raise BrokenInventory(reason)


def _undone(change: InventoryChange, number: int) -> InventoryChange:
    return InventoryChange(
        change.version, change.at, change.by, change.operations, number, change.undoes
    )


def _read_operation(raw: object, masks: Masks) -> InventoryOperation:
    if not isinstance(raw, Mapping):
        raise InventoryRefused("an operation is an object of op, pattern, path and value")
    unknown = set(raw) - {"op", "pattern", "path", "value"}
    if unknown:
        raise InventoryRefused(f"an operation has no {', '.join(sorted(map(str, unknown)))}")
    op, pattern = raw.get("op"), raw.get("pattern")
    if op not in ("set", "delete"):
        raise InventoryRefused(f"an operation is set or delete, not {op!r}")
    if not isinstance(pattern, str) or not pattern or not pattern.isprintable():
        raise InventoryRefused("an operation needs a pattern of worker names")
    path = read_path(raw.get("path", ""))
    if op == "delete":
        return InventoryOperation(op, pattern, path)
    if "value" not in raw:
        raise InventoryRefused("set needs a value")
    _check_value(raw["value"], path, masks)
    return InventoryOperation(op, pattern, path, raw["value"])


def _check_value(raw: object, path: Steps, masks: Masks) -> None:
    if not path and not isinstance(raw, Mapping):
        raise InventoryRefused("the whole of a worker's inventory is an object")
    try:
        json.dumps(raw, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InventoryRefused(f"the value has no JSON form: {error}") from None
    secrets = masks.secret_paths(raw, path)
    if secrets:
        # The ledger holds this request, and a client must not name a file of the broker.
        advice = "an operator writes it into the inventory files as secret:env:NAME"
        raise InventoryRefused(f"{', '.join(secrets)}: a secret cannot be set here; {advice}")


def read_path(raw: object) -> Steps:
    """Parse a path: text with dots, or a list of names. Raises `InventoryRefused`."""
    steps = [s for s in raw.split(".") if s] if isinstance(raw, str) else raw
    if not isinstance(steps, list | tuple) or not all(isinstance(s, str) and s for s in steps):
        raise InventoryRefused("a path is text with dots, or a list of names")
    return tuple(steps)


def find(tree: object, path: Steps) -> object:
    """Return the value at a path. Raises `InventoryRefused` if there is none."""
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            raise InventoryRefused(f"there is no value at {'.'.join(path)}")
        tree = tree[step]
    return tree


def _apply(raw: Mapping[str, object], operation: InventoryOperation) -> dict[str, object]:
    """Return a copy of an object with an operation applied."""
    made, path = dict(raw), operation.path
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
        return [_read_change(raw) for raw in json.loads(text)]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenInventory(f"{file}: this is not a list of inventory changes: {error}") from None


def _read_change(raw: Mapping[str, Any]) -> InventoryChange:
    operations = tuple(
        InventoryOperation(o["op"], o["pattern"], tuple(o["path"]), o.get("value"))
        for o in raw["operations"]
    )
    return InventoryChange(
        raw["version"], raw["at"], raw["by"], operations, raw["undone"], raw["undoes"]
    )
