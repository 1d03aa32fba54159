"""Dragoman: one service broker that speaks five published protocols of the Majordomo family."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.sdk.blocking import Client, Job
    from dragoman.sdk.client import AsyncClient
    from dragoman.sdk.errors import DragomanError, JobFailed
    from dragoman.sdk.tasks import TaskFailed
    from dragoman.sdk.worker import Worker

__all__ = ["AsyncClient", "Client", "DragomanError", "Job", "JobFailed", "TaskFailed", "Worker"]

_MODULES = {
    "AsyncClient": "client",
    "Client": "blocking",
    "DragomanError": "errors",
    "Job": "blocking",
    "JobFailed": "errors",
    "TaskFailed": "tasks",
    "Worker": "worker",
}


def __getattr__(name: str) -> Any:
    """Import the SDK on first use: the pure layers must not load its sockets."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    return getattr(import_module(f"dragoman.sdk.{_MODULES[name]}"), name)
