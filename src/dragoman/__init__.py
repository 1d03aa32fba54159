"""Dragoman: one service broker that speaks five published protocols of the Majordomo family."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.model.limit import Limit
    from dragoman.model.retry import Retry
    from dragoman.model.unique import Unique
    from dragoman.sdk.blocking import Client, Job
    from dragoman.sdk.client import AsyncClient
    from dragoman.sdk.compositions import BadPlan, Chain, Group, Map, Step
    from dragoman.sdk.context import JobContext
    from dragoman.sdk.credentials import Credentials
    from dragoman.sdk.errors import (
        Cancelled,
        Denied,
        DragomanError,
        Expired,
        JobFailed,
        NotDeterministic,
        Refused,
        StillRunning,
        Unreachable,
    )
    from dragoman.sdk.files import AsyncFiles, Files
    from dragoman.sdk.jobs import (
        AsyncJob,
        Chunk,
        Dispatched,
        InputAsked,
        Progress,
        Published,
    )
    from dragoman.sdk.large_values import LargeValues, ValueLost
    from dragoman.sdk.middleware import Middleware
    from dragoman.sdk.queue_admin import DeadLetters, Flow, Schedules
    from dragoman.sdk.task_results import NotInDialect, Permanent, TaskFailed, TryAgain
    from dragoman.sdk.worker import Worker

__all__ = [
    "AsyncClient",
    "AsyncFiles",
    "AsyncJob",
    "BadPlan",
    "Cancelled",
    "Chain",
    "Chunk",
    "Client",
    "Credentials",
    "DeadLetters",
    "Denied",
    "Dispatched",
    "DragomanError",
    "Expired",
    "Files",
    "Flow",
    "Group",
    "InputAsked",
    "Job",
    "JobContext",
    "JobFailed",
    "LargeValues",
    "Limit",
    "Map",
    "Middleware",
    "NotDeterministic",
    "NotInDialect",
    "Permanent",
    "Progress",
    "Published",
    "Refused",
    "Retry",
    "Schedules",
    "Step",
    "StillRunning",
    "TaskFailed",
    "TryAgain",
    "Unique",
    "Unreachable",
    "ValueLost",
    "Worker",
]

_MODULES = {
    "model.limit": ("Limit",),
    "model.retry": ("Retry",),
    "model.unique": ("Unique",),
    "sdk.blocking": ("Client", "Job"),
    "sdk.client": ("AsyncClient",),
    "sdk.compositions": ("BadPlan", "Chain", "Group", "Map", "Step"),
    "sdk.context": ("JobContext",),
    "sdk.credentials": ("Credentials",),
    "sdk.errors": (
        *("Cancelled", "Denied", "DragomanError", "Expired"),
        *("JobFailed", "NotDeterministic", "Refused", "StillRunning", "Unreachable"),
    ),
    "sdk.files": ("AsyncFiles", "Files"),
    "sdk.jobs": ("AsyncJob", "Chunk", "Dispatched", "InputAsked", "Progress", "Published"),
    "sdk.large_values": ("LargeValues", "ValueLost"),
    "sdk.middleware": ("Middleware",),
    "sdk.queue_admin": ("DeadLetters", "Flow", "Schedules"),
    "sdk.task_results": ("NotInDialect", "Permanent", "TaskFailed", "TryAgain"),
    "sdk.worker": ("Worker",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the SDK on first use: the pure layers must not load its sockets."""
    from importlib import import_module

    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    return getattr(import_module(f"dragoman.{_MODULE_OF[name]}"), name)
