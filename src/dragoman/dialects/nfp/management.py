"""The answers to NorFab's management calls, in NorFab's form.

The server passes its state as `Facts`. The row protocols name only the fields of the core's view
that are used. NorFab's clients check `get_stats` field by field: add nothing to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.value import field, value


class UnknownTask(Exception):
    """There is no management task of this name."""


class NfpWorkerRow(Protocol):
    """One worker of the core's view."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def services(self) -> Sequence[str]:
        """The services that it offers."""

    @property
    def status(self) -> str:
        """`alive`, or another status of the core's view."""

    @property
    def lease(self) -> float | None:
        """How long it may be silent, in seconds."""

    @property
    def silent_for(self) -> float:
        """How long it has been silent, in seconds."""

    @property
    def alive_for(self) -> float:
        """How long it has been registered, in seconds."""

    @property
    def beats(self) -> int:
        """Heartbeats received from it."""


class NfpServiceRow(Protocol):
    """One service of the core's view."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def workers(self) -> int:
        """How many workers serve it."""

    @property
    def queued(self) -> int:
        """Queued jobs."""

    @property
    def running(self) -> int:
        """Running jobs."""


class NfpClientRow(Protocol):
    """One client of the core's view."""

    @property
    def peer(self) -> str:
        """Its id."""

    @property
    def jobs(self) -> int:
        """Jobs it submitted."""

    @property
    def first_seen_at(self) -> float:
        """When its first message came."""

    @property
    def seen_at(self) -> float:
        """When its last message came."""


@value
class Process:
    """Figures of the broker process."""

    cpu_percent: float = 0.0
    memory_rss_mbyte: float = 0.0
    uptime_seconds: int = 0
    open_file_descriptors: int | None = None
    tcp_sockets: int | None = None
    threads: int = 1


@value
class Messaging:
    """Message counts since the process started."""

    sent: int = 0
    received: int = 0
    events_received: int = 0
    send_failures: int = 0
    receive_failures: int = 0


@value
class Facts:
    """A snapshot of the broker for one management call."""

    now: float
    workers: Sequence[NfpWorkerRow] = ()
    services: Sequence[NfpServiceRow] = ()
    clients: Sequence[NfpClientRow] = ()
    #: KEEPALIVEs sent, by worker name.
    beats_sent: Mapping[str, int] = field(default_factory=dict)
    settings: NfpSettings = NfpSettings()
    name: str = "dragoman"
    endpoint: str = ""
    is_stopping: bool = False
    process: Process = Process()
    messaging: Messaging = Messaging()
    #: Package names and versions.
    versions: Mapping[str, str] = field(default_factory=dict)
    directories: Mapping[str, Any] = field(default_factory=dict)
    security: Mapping[str, Any] = field(default_factory=dict)


def answer(facts: Facts, task: str, kwargs: Mapping[str, Any]) -> object:
    """Answer a task of the management service. Raises `UnknownTask`."""
    try:
        return _TASKS[task](facts, kwargs)
    except KeyError:
        raise UnknownTask(task) from None


def show_workers(facts: Facts, kwargs: Mapping[str, Any]) -> list[dict[str, str]]:
    """List workers as text rows. Without workers there is one empty row."""
    rows = [_worker_text(facts, row) for row in facts.workers]
    service, status = kwargs.get("service"), kwargs.get("status")
    if service and service != "all":
        rows = [row for row in rows if row["service"] == service]
    if status in ("alive", "dead"):
        rows = [row for row in rows if row["status"] == status]
    return rows or [{"name": "", "service": "", "status": ""}]


def _worker_text(facts: Facts, row: NfpWorkerRow) -> dict[str, str]:
    return {
        "name": row.name,
        "service": ",".join(row.services),
        "status": _is_alive(row),
        "holdtime": f"{_holdtime(row):.1f}",
        "keepalives tx/rx": f"{facts.beats_sent.get(row.name, 0)} / {row.beats}",
        "alive (s)": str(int(row.alive_for)),
    }


def _is_alive(row: NfpWorkerRow) -> str:
    """Return NorFab's status word. A worker that is away is `dead`."""
    return "dead" if row.status == "away" else "alive"


def _holdtime(row: NfpWorkerRow) -> float:
    return max(0.0, (row.lease or 0.0) - row.silent_for)


def get_stats(facts: Facts, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strict statistics object."""
    return {
        "schema_version": "1.0",
        "collected_at": datetime.fromtimestamp(facts.now, UTC).isoformat().replace("+00:00", "Z"),
        "name": facts.name,
        "role": "broker",
        "status": _status(facts),
        "process": _object(facts.process),
        "messaging": _object(facts.messaging),
        "endpoint": facts.endpoint,
        "worker_count": len(facts.workers),
        "service_count": len(facts.services),
        "keepalive_interval_ms": int(facts.settings.beat_every * 1000),
        "keepalive_multiplier": facts.settings.missed_allowed,
        "workers": [_worker_stats(facts, row) for row in facts.workers],
    }


def _worker_stats(facts: Facts, row: NfpWorkerRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "service": ",".join(row.services),
        "status": _is_alive(row),
        "holdtime_seconds": round(_holdtime(row), 1),
        "uptime_seconds": int(row.alive_for),
        "keepalives_sent": facts.beats_sent.get(row.name, 0),
        "keepalives_received": row.beats,
    }


def _status(facts: Facts) -> str:
    return "stopping" if facts.is_stopping else "active"


def _object(row: Process | Messaging) -> dict[str, Any]:
    return {f.name: getattr(row, f.name) for f in fields(row)}


def get_status(facts: Facts, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return name, status and endpoint of the broker."""
    return {
        "name": facts.name,
        "role": "broker",
        "status": _status(facts),
        "endpoint": facts.endpoint,
        "directories": dict(facts.directories),
        "security": dict(facts.security),
    }


def show_broker(facts: Facts, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return status and counts in one object, for the text and older releases."""
    return get_status(facts, kwargs) | {
        "keepalives": {
            "interval": int(facts.settings.beat_every * 1000),
            "multiplier": facts.settings.missed_allowed,
        },
        "workers count": len(facts.workers),
        "services count": len(facts.services),
    }


def show_broker_version(facts: Facts, kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of the broker's packages."""
    return dict(facts.versions)


def show_services(facts: Facts, kwargs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List services with their workers and jobs."""
    return [
        {"name": s.name, "workers": s.workers, "queued": s.queued, "running": s.running}
        for s in facts.services
    ]


def show_clients(facts: Facts, kwargs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the clients that were active lately."""
    return [
        {
            "name": c.peer,
            "jobs": c.jobs,
            "first seen (s)": round(facts.now - c.first_seen_at, 1),
            "last seen (s)": round(facts.now - c.seen_at, 1),
        }
        for c in facts.clients
    ]


_TASKS: Final[dict[str, Callable[[Facts, Mapping[str, Any]], object]]] = {
    "show_workers": show_workers,
    "get_stats": get_stats,
    "get_status": get_status,
    "show_broker": show_broker,
    "show_broker_version": show_broker_version,
    "show_services": show_services,
    "show_clients": show_clients,
}
