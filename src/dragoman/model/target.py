"""Targets: which workers of its service a job is for.

Text form (command line, records, settings): `any`, `all`, `a,b` (worker names),
`labels:EXPRESSION`, `resource:NAME[,NAME or glob]`. Ambiguous worker names are written `names:a,b`.
After `names:` and `resource:`, a comma, a percent sign and white space inside a name are
percent-encoded. Parsing the text gives the same target again, unless it names a worker twice:
recovery reads targets from the records.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote

from dragoman.model.labels import Requirement, parse_labels
from dragoman.model.names import WorkerName
from dragoman.model.value import value

_PLAIN: Final = re.compile(r"(?!(?:any|all)$)[^\s,:]+")
_AWKWARD: Final = re.compile(r"[\s,%]")


def _join(names: Iterable[str]) -> str:
    return ",".join(_AWKWARD.sub(lambda found: quote(found[0], safe=""), name) for name in names)


def _split(text: str) -> tuple[str, ...]:
    return tuple(unquote(name.strip()) for name in text.split(",") if name.strip())


@value
class AnyWorker:
    """Any one worker."""

    def __str__(self) -> str:
        return "any"


@value
class AllWorkers:
    """Every worker that is registered when the job is bound."""

    def __str__(self) -> str:
        return "all"


@value
class Named:
    """Each of these workers that is registered."""

    names: tuple[WorkerName, ...]

    def __str__(self) -> str:
        if self.names and all(map(_PLAIN.fullmatch, self.names)):
            return ",".join(self.names)
        return "names:" + _join(self.names)


@value
class Labelled:
    """One worker whose labels match."""

    expression: str

    def __str__(self) -> str:
        return f"labels:{self.expression}"

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The conditions; the expression was checked when the target was made."""
        return parse_labels(self.expression)


@value
class OnResource:
    """For each of these resources, one worker that owns it. Names or globs."""

    resources: tuple[str, ...]

    def __str__(self) -> str:
        return "resource:" + _join(self.resources)


Target = AnyWorker | AllWorkers | Named | Labelled | OnResource
ANY: Final = AnyWorker()
ALL: Final = AllWorkers()


def write_names(names: Iterable[str]) -> str:
    """Write names separated by commas, percent-encoded as in a target."""
    return _join(names)


def read_names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    return _split(text)


def resources_of(text: str) -> tuple[str, ...]:
    """Return the resources in the text of a target; none for another kind of target."""
    return _split(text.removeprefix("resource:")) if text.startswith("resource:") else ()


def parse_target(text: str) -> Target:
    """Parse the text form. Raises ValueError with a message for the user."""
    if text.strip() in ("any", ""):
        return ANY
    if text.strip() == "all":
        return ALL
    if text.startswith("labels:"):
        parse_labels(text[7:])
        return Labelled(text[7:])
    if text.startswith("resource:"):
        return OnResource(_split(text[9:]))
    if text.startswith("names:"):
        return Named(tuple(map(WorkerName, _split(text[6:]))))
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError(f"the target {text!r} names no worker")
    return Named(tuple(map(WorkerName, names)))
