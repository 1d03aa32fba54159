"""Celery's names on a Dragoman broker: change `from celery import ...` and programs run.

    from dragoman.compat.celery import Celery

    app = Celery("tasks", broker="nfp://127.0.0.1:5555")

    @app.task
    def add(x, y):
        return x + y

Then `python -m dragoman.compat.celery -A tasks worker`. A queue is a service. A chain or chord is
a workflow of child jobs. docs/howto-move-from-celery.md has what is there.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.compat.celery.app import Celery, shared_task
from dragoman.compat.celery.canvas import Signature, chain, chord, group
from dragoman.compat.celery.results import AsyncResult, GroupResult
from dragoman.compat.celery.tasks import CeleryTask as Task
from dragoman.compat.hints import module_getattr

__all__ = [
    "AsyncResult",
    "Celery",
    "GroupResult",
    "Signature",
    "Task",
    "chain",
    "chord",
    "group",
    "shared_task",
    "signature",
]


def signature(
    task: Task,
    args: Iterable[object] | None = (),
    kwargs: Mapping[str, object] | None = None,
    **options: Any,
) -> Signature:
    """Return the signature of a task."""
    return task.signature(args, kwargs, **options)


_HINTS = {
    "chunks": "write group(task.s(*part) for part in parts)",
    "xmap": "write group(task.s(item) for item in items)",
    "xstarmap": "write group(task.s(*item) for item in items)",
    "maybe_signature": "signatures are objects here, not mappings",
    "current_app": "import the app of your module",
    "current_task": "use bind=True: the first parameter is the task",
    "signals": "use middleware (docs/workers.md) or a lifespan",
    "bootsteps": "use a lifespan of the worker (docs/workers.md)",
    "uuid": "ids of jobs are made by the client; write task_id=... for your own",
}
__getattr__ = module_getattr(__name__, _HINTS)
