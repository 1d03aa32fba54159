"""Inventory for workers: objects by name pattern, merged in the order they are written."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any


def inventory_for(inventory: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any] | None:
    """Return the merged object of a worker, or None if no pattern matches its name."""
    found: dict[str, Any] | None = None
    for pattern, content in inventory.items():
        if fnmatchcase(name, pattern):
            found = merge(found or {}, content)
    return found


def merge(into: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge deeply: objects by key, lists joined without repeats, otherwise the later one wins."""
    merged = dict(into)
    for key, new in other.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            merged[key] = merge(old, new)
        elif isinstance(old, list) and isinstance(new, list):
            merged[key] = old + [item for item in new if item not in old]
        else:
            merged[key] = new
    return merged
