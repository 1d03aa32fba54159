"""The answers to NorFab's management calls, in NorFab's form.

NorFab's clients check `get_stats` field by field: add nothing to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

from dragoman.dialects.facts import BrokerFacts, MessageCounts, ProcessFacts, WorkerFacts
from dragoman.dialects.nfp.settings import NfpSettings

#: The packages that NorFab's broker reports.
_PACKAGES: Final = (
    *("norfab", "pyyaml", "pyzmq", "psutil", "pydantic", "tornado", "jinja2"),
    *("python", "platform"),
)


def show_workers(
    facts: BrokerFacts, settings: NfpSettings, kwargs: Mapping[str, object]
) -> list[dict[str, str]]:
    """List workers as text rows. Without workers there is one empty row."""
    rows = [_worker_text(facts, row) for row in facts.workers]
    service, status = kwargs.get("service"), kwargs.get("status")
    if service and service != "all":
        rows = [row for row in rows if row["service"] == service]
    if status in ("alive", "dead"):
        rows = [row for row in rows if row["status"] == status]
    return rows or [{"name": "", "service": "", "status": ""}]


def _worker_text(facts: BrokerFacts, row: WorkerFacts) -> dict[str, str]:
    return {
        "name": row.name,
        "service": ",".join(row.services),
        "status": _is_alive(row),
        "holdtime": f"{_holdtime(row):.1f}",
        "keepalives tx/rx": f"{facts.beats_sent.get(row.name, 0)} / {row.beats}",
        "alive (s)": str(int(row.alive_for)),
    }


def _is_alive(row: WorkerFacts) -> str:
    """Return NorFab's status word. A worker that is away is `dead`."""
    return "dead" if row.status == "away" else "alive"


def _holdtime(row: WorkerFacts) -> float:
    return max(0.0, (row.lease or 0.0) - row.silent_for)


def get_stats(
    facts: BrokerFacts, settings: NfpSettings, kwargs: Mapping[str, object]
) -> dict[str, Any]:
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
        "keepalive_interval_ms": int(settings.beat_every * 1000),
        "keepalive_multiplier": settings.missed_allowed,
        "workers": [_worker_stats(facts, row) for row in facts.workers],
    }


def _worker_stats(facts: BrokerFacts, row: WorkerFacts) -> dict[str, object]:
    return {
        "name": row.name,
        "service": ",".join(row.services),
        "status": _is_alive(row),
        "holdtime_seconds": round(_holdtime(row), 1),
        "uptime_seconds": int(row.alive_for),
        "keepalives_sent": facts.beats_sent.get(row.name, 0),
        "keepalives_received": row.beats,
    }


def _status(facts: BrokerFacts) -> str:
    return "stopping" if facts.is_stopping else "active"


def _object(row: ProcessFacts | MessageCounts) -> dict[str, object]:
    return {f.name: getattr(row, f.name) for f in fields(row)}


def get_status(
    facts: BrokerFacts, settings: NfpSettings, kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Return name, status and endpoint of the broker."""
    return {
        "name": facts.name,
        "role": "broker",
        "status": _status(facts),
        "endpoint": facts.endpoint,
        "directories": dict(facts.directories),
        "security": dict(facts.security),
    }


def show_broker(
    facts: BrokerFacts, settings: NfpSettings, kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Return status and counts in one object, for the text and older releases."""
    return get_status(facts, settings, kwargs) | {
        "keepalives": {
            "interval": int(settings.beat_every * 1000),
            "multiplier": settings.missed_allowed,
        },
        "workers count": len(facts.workers),
        "services count": len(facts.services),
    }


def show_broker_version(
    facts: BrokerFacts, settings: NfpSettings, kwargs: Mapping[str, object]
) -> dict[str, str]:
    """Return the versions of the broker's packages. NorFab's own keys come first."""
    return dict.fromkeys(_PACKAGES, "") | dict(facts.versions)


def show_services(
    facts: BrokerFacts, settings: NfpSettings, kwargs: Mapping[str, object]
) -> list[dict[str, object]]:
    """List services with their workers and jobs."""
    return [
        {"name": s.name, "workers": s.workers, "queued": s.queued, "running": s.running}
        for s in facts.services
    ]


def show_clients(
    facts: BrokerFacts, settings: NfpSettings, kwargs: Mapping[str, object]
) -> list[dict[str, object]]:
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


TASKS: Final[dict[str, Callable[[BrokerFacts, NfpSettings, Mapping[str, object]], object]]] = {
    "show_workers": show_workers,
    "get_stats": get_stats,
    "get_status": get_status,
    "show_broker": show_broker,
    "show_broker_version": show_broker_version,
    "show_services": show_services,
    "show_clients": show_clients,
}
