"""Tasks: plain typed functions that a worker offers.

Arguments come from the wire as JSON values and bytes; they are turned into what the annotations
ask for (numbers, dataclasses, enums, ...) before the function is called, so a wrong argument is a
clear fault and never a traceback from inside the task.
"""

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

import msgspec

from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.value import value

#: A parameter with this name gets the job's context instead of an argument.
CONTEXT_NAME: Final = "job"


class TaskFailed(Exception):
    """Raise inside a task to fail with words for the caller and no traceback."""


class ForwardRequested(Exception):
    """Raised by `job.forward`: the work goes on in another service."""

    def __init__(self, service: str, call: Call) -> None:
        super().__init__(service)
        self.service = service
        self.call = call


@value
class Parameter:
    """One parameter and what its argument must become."""

    name: str
    type: Any


@value
class Task:
    """A function, its name and its parameters."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature
    #: What callers give: the signature without the context, wherever the function has it.
    asked: inspect.Signature
    parameters: tuple[Parameter, ...]
    wants_context: bool
    doc: str

    def bind(self, call: Call, context: Any) -> inspect.BoundArguments:
        """Fit a call's arguments to the function. Raises TypeError in words for the caller.

        A raw request is one argument, for functions that take any.
        """
        args, kwargs = call.args, dict(call.kwargs)
        if call.raw is not None and self.asked.parameters:
            args = (call.raw,)
        if self.wants_context:
            kwargs.pop(CONTEXT_NAME, None)
        bound = self.asked.bind(*args, **kwargs)
        for parameter in self.parameters:
            if parameter.name in bound.arguments:
                given = bound.arguments[parameter.name]
                bound.arguments[parameter.name] = _convert(given, parameter)
        return self._with_context(bound, context) if self.wants_context else bound

    def _with_context(self, bound: inspect.BoundArguments, context: Any) -> inspect.BoundArguments:
        """Put the context in its place among the arguments."""
        given = bound.arguments | {CONTEXT_NAME: context}
        in_order = {name: given[name] for name in self.signature.parameters if name in given}
        return inspect.BoundArguments(self.signature, in_order)


def _convert(given: Any, parameter: Parameter) -> Any:
    try:
        return msgspec.convert(given, parameter.type)
    except msgspec.ValidationError as error:
        raise TypeError(f"argument {parameter.name!r}: {error}") from None


def make_task(function: Callable[..., Any], name: str | None = None) -> Task:
    """Make a task of a function."""
    signature = inspect.signature(function)
    hints = get_type_hints(function)
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = tuple(
        Parameter(p.name, hints[p.name])
        for p in signature.parameters.values()
        if p.kind in plain and p.name in hints and p.name != CONTEXT_NAME
    )
    return Task(
        name or function.__name__,
        function,
        signature,
        _without_context(signature),
        parameters,
        CONTEXT_NAME in signature.parameters,
        inspect.getdoc(function) or "",
    )


def _without_context(signature: inspect.Signature) -> inspect.Signature:
    asked = [p for p in signature.parameters.values() if p.name != CONTEXT_NAME]
    return signature.replace(parameters=asked)


class Tasks:
    """The tasks of a worker, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        #: Takes every call that names no known task; for services that take raw bytes.
        self.fallback: Task | None = None

    def add(self, task: Task) -> None:
        """Offer a task."""
        self._tasks[task.name] = task

    def names(self) -> list[str]:
        """Return what is offered."""
        return sorted(self._tasks)

    def find(self, call: Call) -> Task | None:
        """Return the task a call asks for. Names differ by more than case: verbs are shouted."""
        found = self._tasks.get(call.task)
        if found is None:
            lower = call.task.lower()
            found = next((t for n, t in self._tasks.items() if n.lower() == lower), None)
        return found or self.fallback

    def run(self, call: Call, context: Any) -> Answer:
        """Run a call; every failure becomes a fault. Only `ForwardRequested` passes through."""
        task = self.find(call)
        if task is None:
            offered = ", ".join(self.names()) or "none"
            return _failed(f"unknown task {call.task!r}; this worker offers {offered}")
        try:
            bound = task.bind(call, context)
        except TypeError as error:
            return _failed(f"{task.name}: {error}")
        try:
            result = task.function(*bound.args, **bound.kwargs)
            if inspect.iscoroutine(result):
                result = context.wait_for(result)
        except ForwardRequested:
            raise
        except TaskFailed as error:
            return _failed(str(error))
        except Exception:
            return _failed(traceback.format_exc(limit=-8))
        return Answer(raw=result) if isinstance(result, bytes) else Answer(_plain(result))


def _plain(result: Any) -> Any:
    """Turn a result into JSON values and bytes (dataclasses, enums, dates become plain)."""
    if result is None or type(result) in (bool, int, float, str):
        return result
    return msgspec.to_builtins(result, builtin_types=(bytes, bytearray, memoryview))


def _failed(words: str) -> Answer:
    return Answer(fault=Fault(FaultCode.TASK_FAILED, words))


def tasks_of(thing: Mapping[str, Any] | object) -> list[Task]:
    """Find the tasks in a module or object: its public functions or methods."""
    found = []
    for name, member in inspect.getmembers(thing, callable):
        is_own = getattr(member, "__module__", None) == getattr(thing, "__name__", None)
        is_task = (inspect.ismethod(member) or is_own) and not inspect.isclass(member)
        if is_task and not name.startswith("_"):
            found.append(make_task(member, name))
    return found
