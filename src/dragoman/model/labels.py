"""Label expressions: they select workers by their labels.

Syntax of Kubernetes: `zone=eu, gpu, !spot, tier!=test, arch in (arm, x86), os notin (win)`, and
`cpus>4` or `cpus<9` for numbers. All requirements must hold. An empty expression matches all.
"""

import re
from collections.abc import Mapping
from typing import Final

from dragoman.model.retry import LABEL
from dragoman.model.value import value

#: The label that lists the resources a worker owns, separated by commas.
ANNOUNCED: Final = "dragoman.resources"
#: The label that says how many jobs may wait in a worker, beside those that it runs.
PREFETCH: Final = "dragoman.prefetch"

#: Labels that the SDK sets for the broker begin so.
_INTERNAL: Final = ("dragoman.", LABEL)

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._/-]*"
_SET: Final = re.compile(rf"({_NAME})\s+(in|notin)\s*\(([^()]*)\)")
_COMPARE: Final = re.compile(rf"({_NAME})\s*(==|=|!=|>|<)\s*([^\s,()=<>!]+)")
_EXISTS: Final = re.compile(rf"(!?)\s*({_NAME})")


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a worker's owner gave it, without those of the SDK itself."""
    return {name: text for name, text in labels.items() if not name.startswith(_INTERNAL)}


@value
class Requirement:
    """One condition on one label. `operator` is in, notin, exists, absent, gt or lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tell whether `labels` meet this requirement."""
        found = labels.get(self.key)
        if self.operator == "exists":
            return found is not None
        if self.operator == "absent":
            return found is None
        if self.operator == "in":
            return found in self.values
        if self.operator == "notin":
            return found not in self.values
        return found is not None and _compares(found, self.operator, self.values[0])


def _compares(found: str, operator: str, wanted: str) -> bool:
    if not _is_number(found):
        return False
    left, right = float(found), float(wanted)
    return left > right if operator == "gt" else left < right


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse an expression. Raises ValueError that names the part it cannot parse."""
    return tuple(_requirement(part.strip()) for part in _split(text) if part.strip())


def _split(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


_OPERATORS: Final = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def _requirement(part: str) -> Requirement:
    if found := _SET.fullmatch(part):
        values = tuple(v.strip() for v in found[3].split(",") if v.strip())
        if not values:
            raise ValueError(f"the label requirement {part!r} lists no values")
        return Requirement(found[1], found[2], values)
    if found := _COMPARE.fullmatch(part):
        if found[2] in "<>" and not _is_number(found[3]):
            raise ValueError(f"the label requirement {part!r} does not compare with a number")
        return Requirement(found[1], _OPERATORS[found[2]], (found[3],))
    if found := _EXISTS.fullmatch(part):
        return Requirement(found[2], "absent" if found[1] else "exists")
    raise ValueError(f"cannot parse the label requirement {part!r}")
