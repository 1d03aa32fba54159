"""Tasks: plain typed functions that a worker offers.

Arguments arrive as JSON values and bytes. They are converted to the annotated types (numbers,
dataclasses, enums) before the call. So a wrong argument is a clear fault, not a traceback from
inside the task.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Final, get_type_hints

import msgspec

from dragoman.model.content import Answer, Call
from dragoman.model.value import value
from dragoman.sdk.context import JobContext
from dragoman.sdk.isolation import NO_LIMITS, Isolation, TaskLimits
from dragoman.sdk.middleware import call_before, note_answer, note_error
from dragoman.sdk.task_results import (
    ForwardRequested,
    TaskFailed,
    TryAgain,
    answer_of,
    async_answer_of,
    failed,
    failed_by,
    over_time_limit,
)
from dragoman.sdk.task_spans import task_span

__all__ = ["ForwardRequested", "Parameter", "Task", "TaskFailed", "Tasks", "make_task", "tasks_of"]

#: A parameter with this name gets the job's context, as one of type `JobContext` does; but not if
#: its type says that it is an argument.
CONTEXT_NAME: Final = "job"
_ARGUMENTS: Final = (str, bytes, bool, int, float, list, dict)


@value
class Parameter:
    """One parameter and the type of its argument."""

    name: str
    type: Any


@value
class Task:
    """A function, its name and its parameters."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature
    #: The signature that callers see: without the parameters that the worker sets.
    public_signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    #: The parameters that the worker sets, with the type of each.
    injected: tuple[Parameter, ...]
    doc: str
    #: Exceptions after which a retry may help; empty: all.
    retry_on: tuple[type[BaseException], ...] = ()
    #: Where it runs; None: where its worker says.
    isolation: Isolation | None = None
    limits: TaskLimits = NO_LIMITS

    def bind(self, call: Call, context: object) -> inspect.BoundArguments:
        """Bind a call's arguments to the function. Raises TypeError with a message for the caller.

        A raw request is the only argument, if the function has a parameter.
        """
        args, kwargs = call.args, dict(call.kwargs)
        if call.raw is not None and self.public_signature.parameters:
            args = (call.raw,)
        self._check_names(kwargs)
        bound = self.public_signature.bind(*args, **kwargs)
        for parameter in self.parameters:
            if parameter.name in bound.arguments:
                given = bound.arguments[parameter.name]
                bound.arguments[parameter.name] = _convert(given, parameter)
        return self._with_injected(bound, context) if self.injected else bound

    def _check_names(self, kwargs: dict[str, object]) -> None:
        """Ignore an argument for the context; raise TypeError for one that the worker sets."""
        for parameter in self.injected:
            if parameter.type is JobContext:
                kwargs.pop(parameter.name, None)
            elif parameter.name in kwargs:
                raise TypeError(f"argument {parameter.name!r} is set by the worker")

    def _with_injected(
        self, bound: inspect.BoundArguments, context: object
    ) -> inspect.BoundArguments:
        """Add what the worker sets, at its position among the arguments."""
        values = {JobContext: context, **getattr(context, "dependencies", {})}
        set_here = {one.name: values[one.type] for one in self.injected}
        given = bound.arguments | set_here
        in_order = {name: given[name] for name in self.signature.parameters if name in given}
        return inspect.BoundArguments(self.signature, in_order)


def _convert(given: object, parameter: Parameter) -> object:
    try:
        return msgspec.convert(given, parameter.type)
    except msgspec.ValidationError as error:
        raise TypeError(f"argument {parameter.name!r}: {error}") from None


def make_task(
    function: Callable[..., object],
    name: str | None = None,
    retry_on: tuple[type[BaseException], ...] = (),
    isolation: Isolation | None = None,
    limits: TaskLimits = NO_LIMITS,
    types: Set[type] = frozenset(),
) -> Task:
    """Make a task from a function. The worker sets its parameters of these `types`."""
    signature = inspect.signature(function)
    hints = get_type_hints(function)
    injected = tuple(_injected(signature, hints, types))
    hidden = {one.name for one in injected}
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = tuple(
        Parameter(p.name, hints[p.name])
        for p in signature.parameters.values()
        if p.kind in plain and p.name in hints and p.name not in hidden
    )
    return Task(
        name or function.__name__,
        function,
        signature,
        _without(signature, hidden),
        parameters,
        injected,
        inspect.getdoc(function) or "",
        retry_on,
        isolation,
        limits,
    )


def _injected(
    signature: inspect.Signature, hints: Mapping[str, object], types: Set[type]
) -> Iterator[Parameter]:
    """Yield the parameters that the worker sets."""
    for name in signature.parameters:
        hint = hints.get(name, Any)
        if hint is JobContext or (name == CONTEXT_NAME and hint not in _ARGUMENTS):
            yield Parameter(name, JobContext)
        elif isinstance(hint, type) and hint in types:
            yield Parameter(name, hint)


def _without(signature: inspect.Signature, hidden: Set[str]) -> inspect.Signature:
    parameters = [p for p in signature.parameters.values() if p.name not in hidden]
    return signature.replace(parameters=parameters)


def describe_task(task: Task) -> dict[str, Any]:
    """Return a task's name and documentation, and the JSON schemas of parameters and result."""
    types = {parameter.name: parameter.type for parameter in task.parameters}
    found = []
    for name, parameter in task.public_signature.parameters.items():
        is_required = parameter.default is inspect.Parameter.empty
        described = {"name": name, "required": is_required, "kind": parameter.kind.name.lower()}
        described["schema"] = _schema(types[name]) if name in types else {}
        if not is_required:
            described["default"] = _plain_default(parameter.default)
        found.append(described)
    returns = _schema(hints["return"]) if "return" in (hints := _hints(task)) else {}
    return {"task": task.name, "doc": task.doc, "parameters": found, "returns": returns}


def _hints(task: Task) -> dict[str, object]:
    """Return the annotations of a task's function; none if one of them cannot be resolved."""
    try:
        return get_type_hints(task.function)
    except (NameError, TypeError):
        return {}


def _schema(type_: object) -> dict[str, object]:
    """Return the JSON schema of a type; empty if it has none."""
    try:
        return msgspec.json.schema(type_)
    except (TypeError, RuntimeError):
        return {}


def _plain_default(default: object) -> object:
    """Return a default as a JSON value, or as text."""
    try:
        return msgspec.to_builtins(default)
    except (TypeError, msgspec.ValidationError):
        return repr(default)


class Tasks:
    """The tasks of a worker, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        #: Gets every call without a known task name, for services that take raw bytes.
        self.fallback: Task | None = None

    def add(self, task: Task) -> None:
        """Add a task; replace one of the same name."""
        self._tasks[task.name] = task

    def all(self) -> list[Task]:
        """Return every task, also the fallback."""
        return [*self._tasks.values(), *([self.fallback] if self.fallback else [])]

    def names(self) -> list[str]:
        """Return the names of the tasks."""
        return sorted(self._tasks)

    def describe(self) -> list[dict[str, Any]]:
        """Return the tasks with their documentation and parameters."""
        return [describe_task(self._tasks[name]) for name in self.names()]

    def find(self, call: Call) -> Task | None:
        """Return a call's task, or the fallback. Names match in any case: ZSS sends upper case."""
        found = self._tasks.get(call.task)
        if found is None:
            lower = call.task.lower()
            found = next((t for n, t in self._tasks.items() if n.lower() == lower), None)
        return found or self.fallback

    def run(self, call: Call, context: object) -> Answer:
        """Run a call; whatever it raises becomes a fault. Raises `ForwardRequested` only."""
        task = self.find(call)
        if task is None:
            return self.unknown(call)
        try:
            return perform(task, call, context)
        except ForwardRequested:
            raise
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt: they would end the thread, not the job.
            return fault_of(error, task, context)

    def unknown(self, call: Call) -> Answer:
        """Return the answer to a call of a task that is not here."""
        offered = ", ".join(self.names()) or "none"
        return failed(f"unknown task {call.task!r}; this worker offers {offered}")


def perform(task: Task, call: Call, context: object) -> Answer:
    """Run a task inside its middleware. Raises what it raises; `TaskFailed` for wrong arguments."""
    hooks = getattr(context, "middleware", ())
    if not hooks:
        return _perform(task, call, context)
    try:
        call = call_before(hooks, context, call)
        answer = _perform(task, call, context)
    except BaseException as error:
        note_error(hooks, context, call, error)
        raise
    note_answer(hooks, context, call, answer)
    return answer


def _perform(task: Task, call: Call, context: object) -> Answer:
    bound = _bound(task, call, context)
    with task_span(task.name, str(getattr(context, "id", "")), call.headers):
        return answer_of(task.function(*bound.args, **bound.kwargs), context)


async def perform_async(task: Task, call: Call, context: object) -> Answer:
    """Do what `perform` does, for a coroutine function on the running event loop."""
    hooks = getattr(context, "middleware", ())
    if not hooks:
        return await _perform_async(task, call, context)
    try:
        call = call_before(hooks, context, call)
        answer = await _perform_async(task, call, context)
    except BaseException as error:
        note_error(hooks, context, call, error)
        raise
    note_answer(hooks, context, call, answer)
    return answer


async def _perform_async(task: Task, call: Call, context: object) -> Answer:
    bound = _bound(task, call, context)
    limit = task.limits.time
    with task_span(task.name, str(getattr(context, "id", "")), call.headers):
        try:
            async with asyncio.timeout(limit) as scope:
                return await async_answer_of(task.function(*bound.args, **bound.kwargs), context)
        except TimeoutError:
            if scope.expired():
                raise TaskFailed(over_time_limit(limit or 0.0)) from None
            raise


def _bound(task: Task, call: Call, context: object) -> inspect.BoundArguments:
    try:
        return task.bind(call, context)
    except TypeError as error:
        raise TaskFailed(f"{task.name}: {error}") from None


def fault_of(error: BaseException, task: Task | None, context: object) -> Answer:
    """Return the answer for what a task raised; `task` is None if it could not be imported."""
    name = task.name if task else "task"
    retried = (*task.retry_on, TryAgain) if task and task.retry_on else (BaseException,)
    is_permanent = not isinstance(error, retried)
    return failed_by(error, name, str(getattr(context, "id", "")), is_permanent)


def tasks_of(owner: Mapping[str, object] | object) -> list[Task]:
    """Return the public functions of a module, or the public methods of an object, as tasks."""
    found = []
    for name, member in inspect.getmembers(owner, callable):
        is_own = getattr(member, "__module__", None) == getattr(owner, "__name__", None)
        is_task = (inspect.ismethod(member) or is_own) and not inspect.isclass(member)
        if is_task and not name.startswith("_"):
            found.append(make_task(member, name))
    return found
