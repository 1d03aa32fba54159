"""A task as a child process can find it: its function by name, and the options of the task."""

import pickle  # nosec B403: written and read by one program
import runpy
import sys
import types
from collections.abc import Set
from typing import Final

from dragoman.model.value import value
from dragoman.sdk.lifespan import Lifespan
from dragoman.sdk.tasks import Task, make_task

_MAIN: Final = "__main__"
#: The name under which a child imports the worker's main program: its guard keeps it from running.
_IMPORTED_MAIN: Final = "__dragoman_main__"


@value
class TaskReference:
    """A task's name, and its function and exceptions as pickle refers to them."""

    name: str
    pickled: bytes
    #: The function of the worker's lifespan, the values that it provides, and its middleware,
    #: pickled.
    surroundings: bytes = b""
    #: The main program, if the function is in it: a module's name, or a file.
    main_module: str = ""
    main_file: str = ""

    def load(self, types: Set[type] = frozenset()) -> Task:
        """Import the function. Raises what the import raises."""
        self._prepare()
        function, retry_on = pickle.loads(self.pickled)  # nosec B301: written by `refer`
        return make_task(function, self.name, retry_on, types=types)

    def load_lifespan(self) -> Lifespan:
        """Import the worker's lifespan. Raises what the import raises."""
        self._prepare()
        found = pickle.loads(self.surroundings) if self.surroundings else ()  # nosec B301: as above
        return Lifespan(*found)

    def _prepare(self) -> None:
        if self.main_module or self.main_file:
            _import_main(self.main_module, self.main_file)


def refer(task: Task, lifespan: Lifespan | None = None) -> TaskReference:
    """Return the reference of a task. Raises ValueError if a child cannot import it."""
    around = b""
    try:
        pickled = pickle.dumps((task.function, task.retry_on), pickle.HIGHEST_PROTOCOL)
        if lifespan is not None and not lifespan.is_empty:
            shared = (lifespan.function, lifespan.provided, lifespan.middleware)
            around = pickle.dumps(shared, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ValueError(
            f"task {task.name}: a child process cannot import its function, lifespan or "
            f"middleware: {error}"
        ) from None
    if getattr(task.function, "__module__", "") != _MAIN:
        return TaskReference(task.name, pickled, around)
    main: object = sys.modules[_MAIN]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is None and file is None:
        raise ValueError(f"task {task.name}: it must be in a module; a child imports it from there")
    return TaskReference(
        task.name, pickled, around, spec.name if spec else "", "" if spec else str(file)
    )


def _import_main(module: str, file: str) -> None:
    """Import the worker's main program as `__main__`, without running what its guard protects."""
    if getattr(sys.modules[_MAIN], "__dragoman__", False):
        return
    main = types.ModuleType(_MAIN)
    if module:
        content = runpy.run_module(module, run_name=_IMPORTED_MAIN, alter_sys=True)
    else:
        content = runpy.run_path(file, run_name=_IMPORTED_MAIN)
    main.__dict__.update(content)
    main.__dict__["__dragoman__"] = True
    sys.modules[_MAIN] = sys.modules[_IMPORTED_MAIN] = main
