"""Whom a job is for, within its service.

Text form (command line, records, settings): `any`, `all`, `a,b` (worker names),
`labels:EXPRESSION`, `resource:NAME[,NAME or glob]`.
"""

from typing import Final

from dragoman.model.labels import Requirement, parse_labels
from dragoman.model.names import WorkerName
from dragoman.model.value import value


@value
class AnyWorker:
    """One worker, the least loaded."""

    def __str__(self) -> str:
        return "any"


@value
class AllWorkers:
    """Every worker that is registered when the job starts."""

    def __str__(self) -> str:
        return "all"


@value
class Named:
    """Each of these workers that is registered."""

    names: tuple[WorkerName, ...]

    def __str__(self) -> str:
        return ",".join(self.names)


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
        return "resource:" + ",".join(self.resources)


Target = AnyWorker | AllWorkers | Named | Labelled | OnResource
ANY: Final = AnyWorker()
ALL: Final = AllWorkers()


def parse_target(text: str) -> Target:
    """Read the text form. Raises ValueError with a sentence a user can act on."""
    if text in ("any", ""):
        return ANY
    if text == "all":
        return ALL
    if text.startswith("labels:"):
        parse_labels(text[7:])
        return Labelled(text[7:])
    names = tuple(n for n in (p.strip() for p in text.removeprefix("resource:").split(",")) if n)
    if not names:
        raise ValueError(f"the target {text!r} names nobody")
    if text.startswith("resource:"):
        return OnResource(names)
    return Named(tuple(WorkerName(n) for n in dict.fromkeys(names)))
