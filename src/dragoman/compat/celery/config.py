"""The configuration of a Celery app: what has a meaning here, and what is ignored."""

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

from dragoman.compat.hints import NotInCompat

DEFAULTS: Final[dict[str, Any]] = {
    "broker_url": None,
    "task_default_queue": "celery",
    "task_routes": None,
    "task_always_eager": False,
    "task_eager_propagates": False,
    "task_track_started": False,
    "task_time_limit": None,
    "task_default_priority": 0,
    "worker_concurrency": 8,
    "beat_schedule": {},
    "timezone": "UTC",
    "include": (),
    "imports": (),
    "result_expires": None,
}
#: Settings that mean nothing here: results are always kept, bodies are JSON, clocks are UTC.
IGNORED: Final = frozenset(
    [
        "result_backend",
        "backend",
        "broker",
        "enable_utc",
        "accept_content",
        "result_accept_content",
        "task_ignore_result",
        "task_store_errors_even_if_ignored",
        "broker_connection_retry_on_startup",
        "broker_connection_retry",
        "worker_prefetch_multiplier",
        "task_acks_late",
        "task_reject_on_worker_lost",
        "result_persistent",
        "worker_hijack_root_logger",
        "worker_log_format",
        "worker_task_log_format",
        "result_extended",
        "worker_send_task_events",
        "task_send_sent_event",
        "broker_transport_options",
        "result_backend_transport_options",
        "broker_heartbeat",
        "broker_pool_limit",
        "worker_max_tasks_per_child",
        "result_serializer",
        "task_serializer",
        "task_soft_time_limit",
    ]
)
_HINTS: Final = {
    "task_annotations": "set limits in the broker's settings: [services.NAME.tasks.TASK] rate = 10",
    "task_queues": "a queue is a service, and needs no declaration; start the worker with -Q NAME",
}
_SERIALIZERS: Final = frozenset({"json", "msgpack", "yaml"})


class Config(MutableMapping[str, Any]):
    """Settings by attribute or by key. An unknown one raises with a hint."""

    def __init__(self) -> None:
        self.__dict__["_values"] = dict(DEFAULTS)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, found: object) -> None:
        _check(name, found)
        self._values[name] = found

    def __delitem__(self, name: str) -> None:
        self._values[name] = DEFAULTS.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, found: object) -> None:
        self[name] = found

    def read(self, source: object, namespace: str = "") -> None:
        """Read settings from a module's name, a module, a class or a mapping."""
        if isinstance(source, str):
            source = importlib.import_module(source)
        members = source if isinstance(source, Mapping) else vars(source)
        prefix = f"{namespace}_" if namespace else ""
        for name, found in members.items():
            if not name.startswith(prefix) or name.startswith("_"):
                continue
            wanted = name.removeprefix(prefix)
            wanted = wanted.lower() if namespace else wanted
            if wanted in DEFAULTS or wanted in IGNORED or wanted in _HINTS:
                self[wanted] = found


def _check(name: str, found: object) -> None:
    if name in ("task_serializer", "result_serializer") and found not in _SERIALIZERS:
        raise NotInCompat(f"the serializer {found!r}", "arguments are JSON values and bytes")
    if name not in DEFAULTS and name not in IGNORED:
        hint = _HINTS.get(name, "remove it; docs/howto-move-from-celery.md has what is there")
        raise NotInCompat(f"the Celery setting {name!r}", hint)
