"""Signatures, chains, groups and chords. A chain or chord runs as one workflow of child jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, overload

from dragoman.compat.celery.results import AsyncResult, EagerResult, GroupResult
from dragoman.compat.hints import NotInCompat
from dragoman.sdk.compositions import Chain, Group, Plan, Step

if TYPE_CHECKING:
    from dragoman.compat.celery.tasks import CeleryTask

#: Options of `apply_async` that the steps of a workflow can have, and their names there.
_OF_STEPS: Final = {
    "countdown": "delay",
    "eta": "at",
    "time_limit": "run_timeout",
    "priority": "priority",
}


class Composable:
    """Something that runs: a signature, a chain, a group or a chord."""

    def __or__(self, other: "Composable") -> "ChainSignature":
        """Return a chain: the other one gets this one's result."""
        return chain(self, other)

    def apply_async(
        self,
        args: Iterable[object] | None = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Any:
        """Start it; the arguments come before those of the first task."""
        raise NotImplementedError

    def delay(self, *args: object, **kwargs: object) -> Any:
        """Start it with these arguments."""
        return self.apply_async(args, kwargs)

    def plan(self) -> Plan:
        """Return it as a Dragoman workflow."""
        raise NotImplementedError

    def first_signature(self) -> "Signature":
        """Return the first signature, whose queue runs the workflow."""
        raise NotImplementedError

    def with_args(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> "Composable":
        """Return it with more arguments for its first tasks."""
        raise NotImplementedError


@dataclass(frozen=True)
class Signature(Composable):
    """A task with arguments and options; it may lack some arguments."""

    type: "CeleryTask"
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    immutable: bool = False

    @property
    def task(self) -> str:
        """The task's name."""
        return self.type.name

    def set(self, **options: object) -> "Signature":
        """Return it with more options of `apply_async`."""
        return replace(self, options={**self.options, **options})

    def clone(
        self,
        args: Iterable[object] | None = (),
        kwargs: Mapping[str, object] | None = None,
        **options: object,
    ) -> "Signature":
        """Return it with more arguments and options."""
        return self.with_args(tuple(args or ()), kwargs or {}).set(**options)

    def with_args(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> "Signature":
        """Return it with these arguments before its own, unless it is immutable."""
        if self.immutable:
            return self
        return replace(self, args=(*args, *self.args), kwargs={**self.kwargs, **kwargs})

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the task here."""
        full = self.with_args(args, kwargs)
        return self.type(*full.args, **full.kwargs)

    def apply_async(
        self,
        args: Iterable[object] | None = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Submit the task."""
        full = self.with_args(tuple(args or ()), kwargs or {})
        return self.type.apply_async(full.args, full.kwargs, **{**full.options, **options})

    def apply(
        self, args: Iterable[object] | None = (), kwargs: Mapping[str, object] | None = None
    ) -> EagerResult:
        """Run the task here; return its result as one of a task."""
        full = self.with_args(tuple(args or ()), kwargs or {})
        return self.type.apply(full.args, full.kwargs)

    def link(self, other: "Composable") -> None:
        """Not there."""
        raise NotInCompat("Signature.link", "write a chain: first | then")

    def on_error(self, other: "Composable") -> None:
        """Not there."""
        raise NotInCompat("Signature.on_error", "use middleware: `Middleware.on_failure`")

    def plan(self) -> Step:
        """Return it as a step."""
        step = Step(self.type.queue_for(self.options), self.task, *self.args, **self.kwargs)
        options = {k: v for k, v in self.options.items() if v is not None and k != "queue"}
        if unknown := sorted(set(options) - set(_OF_STEPS)):
            hint = f"a step of a chain has {', '.join(sorted(_OF_STEPS))} and queue"
            raise NotInCompat(f"the option {unknown[0]!r} in a chain or chord", hint)
        step = step.alone() if self.immutable else step
        return step.with_options(**{_OF_STEPS[k]: _value(v) for k, v in options.items()})

    def first_signature(self) -> "Signature":
        """Return itself."""
        return self


def _value(found: Any) -> datetime | timedelta | float:
    return found if isinstance(found, datetime | timedelta) else float(found)


@dataclass(frozen=True)
class ChainSignature(Composable):
    """Tasks one after the other; each gets the result of the one before."""

    tasks: tuple[Composable, ...]

    def with_args(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> "ChainSignature":
        """Return it with more arguments for its first task."""
        first, *rest = self.tasks
        return ChainSignature((first.with_args(args, kwargs), *rest))

    def plan(self) -> Plan:
        """Return it as a workflow."""
        return Chain(*(each.plan() for each in self.tasks))

    def first_signature(self) -> Signature:
        """Return the first signature."""
        return self.tasks[0].first_signature()

    def __call__(self, *args: object, **kwargs: object) -> AsyncResult:
        """Start it."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Iterable[object] | None = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Start it as one workflow, which goes on if this program ends."""
        full = self.with_args(tuple(args or ()), kwargs or {})
        first = full.first_signature()
        return first.type.app.start_workflow(first, full.plan(), options)


@dataclass(frozen=True)
class GroupSignature(Composable):
    """Tasks side by side. Outside a chain, each is a job of its own."""

    tasks: tuple[Composable, ...]

    def with_args(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> "GroupSignature":
        """Return it with more arguments for each task."""
        return GroupSignature(tuple(each.with_args(args, kwargs) for each in self.tasks))

    def plan(self) -> Plan:
        """Return it as a workflow."""
        return Group(*(each.plan() for each in self.tasks))

    def first_signature(self) -> Signature:
        """Return the first signature."""
        return self.tasks[0].first_signature()

    def __call__(self, *args: object, **kwargs: object) -> GroupResult:
        """Start all of them."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Iterable[object] | None = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> GroupResult:
        """Start all of them; the results are in the same order."""
        full = self.with_args(tuple(args or ()), kwargs or {})
        return GroupResult([each.apply_async(**options) for each in full.tasks])

    def __len__(self) -> int:
        return len(self.tasks)


def _tasks(given: tuple[object, ...]) -> tuple[Composable, ...]:
    """Return the tasks: several, or one iterable of them."""
    if len(given) == 1 and not isinstance(given[0], Composable):
        given = tuple(given[0]) if isinstance(given[0], Iterable) else given
    return tuple(map(_composable, given))


def _composable(found: object) -> Composable:
    if not isinstance(found, Composable):
        raise TypeError(f"{found!r} is no signature; write task.s(...)")
    return found


def chain(*tasks: object) -> ChainSignature:
    """Return tasks that run one after the other; each gets the result of the one before."""
    flat: list[Composable] = []
    for each in _tasks(tasks):
        flat += each.tasks if isinstance(each, ChainSignature) else [each]
    if not flat:
        raise ValueError("a chain needs a task")
    return ChainSignature(tuple(flat))


def group(*tasks: object) -> GroupSignature:
    """Return tasks that run side by side; their results are a list in the same order."""
    return GroupSignature(_tasks(tasks))


class ChordBuilder:
    """The header of a chord: call it with the body."""

    def __init__(self, header: GroupSignature) -> None:
        self._header = header

    def __call__(self, body: Composable, **options: Any) -> AsyncResult:
        """Start the chord."""
        return chain(self._header, body).apply_async(**options)


@overload
def chord(header: object) -> ChordBuilder: ...


@overload
def chord(header: object, body: Composable) -> ChainSignature: ...


def chord(header: object, body: Composable | None = None) -> ChordBuilder | ChainSignature:
    """Return a group whose results go to a body as one list."""
    tasks = header if isinstance(header, GroupSignature) else group(header)
    return ChordBuilder(tasks) if body is None else chain(tasks, body)
