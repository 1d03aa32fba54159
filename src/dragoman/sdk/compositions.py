"""Workflows as data: steps in a chain, in a group, or over the items of a list.

    plan = Chain(Group(Step("shop", "price", 1), Step("shop", "price", 2)), Step("shop", "total"))
    client.options(timeout=60).submit_workflow("shop", plan).result()

A client sends the plan to a worker that offers workflows (`worker.offer_workflows()`), which runs
the steps as child jobs: the plan survives the client, its worker and the broker. Each step has a
fixed position among the children, so a re-run repeats no finished step.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dragoman.model.parent import LAST_POSITION
from dragoman.model.retry import Retry, retry_members
from dragoman.model.value import field, value

#: The task by which a worker runs plans.
WORKFLOW_TASK: Final = "run_workflow"
#: How many branches of a group, or items of a map, run at a time.
WINDOW: Final = 100
#: How deep chains and groups may stand in each other, and how many steps a plan may have.
_DEEPEST: Final = 32
_MOST_STEPS: Final = 10_000
_STEP_OPTIONS: Final = {
    *("target", "timeout", "priority", "retries", "delay", "at", "run_timeout"),
}


class BadPlan(ValueError):
    """A plan that cannot be run; the text says why."""


@value
class Step:
    """One call of a task. In a chain, the result of the step before is its first argument."""

    service: str
    task: str
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    #: Options of the job, as JSON values: timeout, retries, target, priority, delay, ...
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it gets the result of the step before.
    takes_result: bool = True

    def __init__(self, service: str, task: str, /, *args: object, **kwargs: object) -> None:
        _set(self, service=service, task=task, args=args, kwargs=kwargs)
        _set(self, options={}, takes_result=True)

    def with_options(self, **options: object) -> "Step":
        """Return this step with options: `target`, `timeout`, `retries`, `delay`, ..."""
        if unknown := sorted(set(options) - _STEP_OPTIONS):
            raise BadPlan(f"a step has no option {unknown[0]!r}; use {_names(_STEP_OPTIONS)}")
        given = {name: _plain_option(found) for name, found in options.items()}
        return self._changed(options={**self.options, **given})

    def alone(self) -> "Step":
        """Return this step without the result of the step before."""
        return self._changed(takes_result=False)

    def _changed(self, **members: object) -> "Step":
        copy = Step(self.service, self.task, *self.args, **self.kwargs)
        _set(copy, options=self.options, takes_result=self.takes_result)
        _set(copy, **members)
        return copy

    def members(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"step": self.call_members()}

    def call_members(self) -> dict[str, object]:
        """Return the members of the step itself, as JSON values."""
        return {
            "service": self.service,
            "task": self.task,
            "args": list(self.args),
            "kwargs": dict(self.kwargs),
            "options": dict(self.options),
            "takes_result": self.takes_result,
        }


@value
class Chain:
    """Plans one after the other; each gets the result of the one before."""

    plans: "tuple[Plan, ...]"

    def __init__(self, *plans: "Plan") -> None:
        _set(self, plans=plans)

    def members(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"chain": [plan.members() for plan in self.plans]}


@value
class Group:
    """Plans side by side, at most `window` at a time; its result is the list of their results."""

    plans: "tuple[Plan, ...]"
    window: int = WINDOW

    def __init__(self, *plans: "Plan", window: int = WINDOW) -> None:
        _set(self, plans=plans, window=window)

    def members(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"group": [plan.members() for plan in self.plans], "window": self.window}


@value
class Map:
    """A step for each item of a list, at most `window` at a time; the result is a list.

    Without items it takes those of the result before it.
    """

    step: Step
    items: Sequence[object] | None = None
    window: int = WINDOW

    def __init__(
        self, step: Step, items: Iterable[object] | None = None, window: int = WINDOW
    ) -> None:
        _set(self, step=step, items=None if items is None else list(items), window=window)

    def members(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"map": self.step.call_members(), "items": self.items, "window": self.window}


Plan = Step | Chain | Group | Map


def _set(plan: object, **members: object) -> None:
    for name, found in members.items():
        object.__setattr__(plan, name, found)


def _plain_option(found: object) -> object:
    if isinstance(found, Retry):
        return retry_members(found)
    if isinstance(found, timedelta):
        return found.total_seconds()
    return found.timestamp() if isinstance(found, datetime) else found


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# --- reading a plan -----------------------------------------------------------------------------


def read_plan(members: object, depth: int = 0) -> Plan:
    """Read what `members` wrote. Raises `BadPlan`."""
    if depth > _DEEPEST:
        raise BadPlan(f"chains and groups stand more than {_DEEPEST} deep in each other")
    if not isinstance(members, Mapping):
        raise BadPlan("a plan is an object with step, chain, group or map")
    for name, read in _READ.items():
        if name in members:
            return read(members, depth)
    raise BadPlan("a plan is an object with step, chain, group or map")


def _read_step(members: Mapping[str, object], depth: int) -> Step:
    found = members["step"]
    if not isinstance(found, Mapping):
        raise BadPlan("a step is an object with service and task")
    service, task = found.get("service"), found.get("task")
    args, kwargs, options = (found.get(n) for n in ("args", "kwargs", "options"))
    if not isinstance(service, str) or not isinstance(task, str):
        raise BadPlan("a step is an object with service and task")
    if not isinstance(args or [], list) or not isinstance(kwargs or {}, Mapping):
        raise BadPlan(f"step {service}.{task}: args is a list, kwargs an object")
    step = Step(service, task, *(args or ()), **(kwargs or {}))
    step = step if found.get("takes_result", True) else step.alone()
    return step.with_options(**(options if isinstance(options, Mapping) else {}))


def _read_chain(members: Mapping[str, object], depth: int) -> Chain:
    return Chain(*_read_plans(members["chain"], depth))


def _read_group(members: Mapping[str, object], depth: int) -> Group:
    return Group(*_read_plans(members["group"], depth), window=_read_window(members))


def _read_map(members: Mapping[str, object], depth: int) -> Map:
    items = members.get("items")
    if items is not None and not isinstance(items, list):
        raise BadPlan("the items of a map are a list")
    return Map(_read_step({"step": members["map"]}, depth), items, _read_window(members))


def _read_plans(found: object, depth: int) -> list[Plan]:
    if not isinstance(found, list):
        raise BadPlan("a chain, or a group, is a list of plans")
    return [read_plan(each, depth + 1) for each in found]


def _read_window(members: Mapping[str, object]) -> int:
    window = members.get("window", WINDOW)
    if type(window) is not int or window < 1:
        raise BadPlan("window is a whole number from 1")
    return window


_READ: Final[dict[str, Callable[[Mapping[str, object], int], Plan]]] = {
    "step": _read_step,
    "chain": _read_chain,
    "group": _read_group,
    "map": _read_map,
}


# --- positions ----------------------------------------------------------------------------------


def steps_of(plan: Plan) -> Iterator[Step]:
    """Yield the steps of a plan, in a fixed order; a map has one."""
    if isinstance(plan, Step):
        yield plan
    elif isinstance(plan, Map):
        yield plan.step
    else:
        for each in plan.plans:
            yield from steps_of(each)


def positions_of(plan: Plan) -> tuple[dict[int, int], int]:
    """Return the first position of each step, by identity, and how many positions each has."""
    steps = list(steps_of(plan))
    if len(steps) > _MOST_STEPS:
        raise BadPlan(f"the plan has {len(steps):,} steps, at most {_MOST_STEPS:,}; use a map")
    room = LAST_POSITION // max(len(steps), 1)
    return {id(step): 1 + number * room for number, step in enumerate(steps)}, room
