"""What a person asks the broker: its state in rows of plain values.

NorFab's own tasks have NorFab's shapes (`dialects.nfp.management`); ours are added to them.
"""

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final

from dragoman.core import view
from dragoman.core.desk import Desk
from dragoman.core.effects import JobStatus
from dragoman.core.why import why
from dragoman.dialects.nfp import management as nfp
from dragoman.dialects.nfp.settings import INVENTORY
from dragoman.dialects.nfp.settings import Settings as NfpSettings
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.server.archive import Archive
from dragoman.server.inventory import inventory_for
from dragoman.server.links import Links

_PACKAGES: Final = ("dragoman", "pyzmq", "apsw", "msgspec", "pynng", "nats-py")


class Management:
    """Answers management and inventory tasks from the live broker."""

    def __init__(
        self,
        desk: Desk,
        archive: Archive,
        links: Links,
        now: Callable[[], float],
        nfp_settings: NfpSettings,
        inventory: Mapping[str, Mapping[str, Any]],
        directories: Mapping[str, str],
    ) -> None:
        self._desk = desk
        self._archive = archive
        self._links = links
        self._now = now
        self._nfp = nfp_settings
        self._inventory = inventory
        self._directories = directories
        self._started_at = time.monotonic()
        self._own: dict[str, Callable[..., object]] = {
            "why": self._why,
            "show_job": self._show_job,
            "show_jobs": self._show_jobs,
            "show_totals": self._show_totals,
            "list_services": self._list_services,
            "list_workers": self._list_workers,
            "list_clients": self._list_clients,
        }

    def __call__(self, service: str, task: str, args: list[Any], kwargs: dict[str, Any]) -> object:
        """Answer one call."""
        if service == INVENTORY:
            if task != "get_inventory":
                raise nfp.UnknownTask(task)
            return inventory_for(self._inventory, str(kwargs.get("name", *args[:1])))
        own = self._own.get(task)
        if own is not None:
            return own(*args, **kwargs)
        return nfp.answer(self._facts(), task, kwargs)

    def _facts(self) -> nfp.Facts:
        desk, links = self._desk, self._links.by_name
        link = links.get("nfp")
        return nfp.Facts(
            now=self._now(),
            workers=_guests(view.workers(desk)),
            services=_served(desk),
            clients=view.clients(desk),
            settings=self._nfp,
            endpoint=link.endpoint if link else "",
            is_stopping=desk.is_draining,
            process=self._process(),
            messaging=nfp.Messaging(
                sum(each.sent for each in links.values()),
                sum(each.received for each in links.values()),
                receive_failures=self._links.rejections.total,
            ),
            versions=_versions(),
            directories=self._directories,
            security={"zmq_auth": False},
        )

    def _process(self) -> nfp.Process:
        used = time.process_time()
        alive = max(time.monotonic() - self._started_at, 0.001)
        return nfp.Process(
            cpu_percent=round(100 * used / alive, 1),
            memory_rss_mbyte=round(_resident_bytes() / 2**20, 1),
            uptime_seconds=int(alive),
            threads=threading.active_count(),
        )

    def _why(self, job: str) -> dict[str, Any]:
        found = why(self._desk, JobId(job))
        if found.reason == "unknown" and (status := self._archive.status(JobId(job))):
            words = f"{status.state} and out of memory; the ledger has it"
            return {"job": job, "reason": status.state, "words": words, "worker": ""}
        return {"job": job, "reason": found.reason, "words": found.words, "worker": found.worker}

    def _show_job(self, job: str) -> dict[str, Any] | None:
        status = view.job(self._desk, JobId(job)) or self._archive.status(JobId(job))
        return _job_row(status) if status else None

    def _show_jobs(self, state: str = "", limit: int = 100) -> list[dict[str, Any]]:
        wanted = JobState(state) if state else None
        return [_job_row(s) for s in view.jobs(self._desk, wanted, limit)]

    def _show_totals(self) -> dict[str, Any]:
        return _row(view.totals(self._desk))

    def _list_services(self) -> list[dict[str, Any]]:
        return [_row(r) for r in _served(self._desk)]

    def _list_workers(self) -> list[dict[str, Any]]:
        return [_row(r) for r in _guests(view.workers(self._desk))]

    def _list_clients(self) -> list[dict[str, Any]]:
        return [_row(r) for r in view.clients(self._desk)]


def _guests(rows: list[view.WorkerRow]) -> list[view.WorkerRow]:
    """Leave out the broker's own services: they are part of the house."""
    return [row for row in rows if row.dialect != "local"]


def _served(desk: Desk) -> list[view.ServiceRow]:
    own = {s for w in view.workers(desk) if w.dialect == "local" for s in w.services}
    return [row for row in view.services(desk) if row.name not in own]


def _row(row: Any) -> dict[str, Any]:
    return {name: _plain(getattr(row, name)) for name in row.__slots__}


def _plain(item: Any) -> Any:
    if isinstance(item, tuple):
        return [_plain(i) for i in item]
    return round(item, 3) if isinstance(item, float) else item


def _job_row(status: JobStatus) -> dict[str, Any]:
    return {
        "job": status.job,
        "state": status.state,
        "service": status.service,
        "task": status.task,
        "target": status.target,
        "client": status.client,
        "workers": [p.worker for p in status.parts if p.worker],
        "attempts": max((p.attempt for p in status.parts), default=0),
        "fault": status.fault.code if status.fault else "",
        "detail": status.fault.message if status.fault else "",
        "submitted_at": round(status.submitted_at, 3),
        "ended_at": round(status.ended_at, 3),
    }


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in _PACKAGES}
    return {**found, "python": sys.version.split()[0], "platform": platform.platform()}


def _resident_bytes() -> int:
    """Read this process's resident memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
