"""Parses amounts in task resources: `500m`, `2`, `512mb`, `1gib`."""

import re
from typing import Final

from dragoman.dialects.ncl.models import TaskResources
from dragoman.model.capacity import NOTHING, Capacity

_AMOUNT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_UNITS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def cores(text: str) -> float:
    """Read a number of cores; 0 if unreadable."""
    found = _AMOUNT.fullmatch(text[:64])
    if found is None or found[2] not in ("", "m"):
        return 0.0
    return float(found[1]) / (1000 if found[2] == "m" else 1)


def size(text: str) -> int:
    """Read a number of bytes, with decimal or binary units; 0 if unreadable."""
    found = _AMOUNT.fullmatch(text[:64])
    if found is None:
        return 0
    unit = found[2].lower().removesuffix("b")
    base = 1024 if unit.endswith("i") else 1000
    power = _UNITS.get(unit.removesuffix("i"))
    return 0 if power is None else int(float(found[1]) * base**power)


def needs_of(resources: TaskResources | None) -> Capacity:
    """Read the capacity that a task needs."""
    if resources is None or not any(
        (resources.CPU, resources.Memory, resources.Disk, resources.GPU)
    ):
        return NOTHING
    gpus = int(resources.GPU) if resources.GPU.isascii() and resources.GPU.isdigit() else 0
    return Capacity(cores(resources.CPU), size(resources.Memory), size(resources.Disk), gpus)
