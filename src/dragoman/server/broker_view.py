"""The view of the live broker for the management service: rows, and NorFab's own forms.

Some dialects answer management tasks in a form of their own; this module collects the facts for it.
"""

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.metadata import version
from typing import Any, Final, Protocol, runtime_checkable

from dragoman.core import view
from dragoman.core.effects import JobStatus
from dragoman.core.events import Event
from dragoman.core.family_tree import family_tree
from dragoman.core.limit_state import rule_name
from dragoman.core.state import BrokerState
from dragoman.core.why import Why, why
from dragoman.dialects.base import Send
from dragoman.dialects.descriptor import ManagementTask
from dragoman.dialects.facts import BrokerFacts, MessageCounts, ProcessFacts
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName
from dragoman.server.archive import Archive
from dragoman.server.health import Health
from dragoman.server.links import Link, Links

_PACKAGES: Final = ("dragoman", "pyzmq", "apsw", "msgspec", "pynng", "nats-py", "pyyaml", "jinja2")


@runtime_checkable
class NodeSide(Protocol):
    """A side whose peers are nodes that an operator approves."""

    def node_rows(self, now: float) -> list[dict[str, object]]:
        """Return the state of every known node."""
        ...

    def set_membership(self, name: str, membership: str, now: float) -> Sequence[Event | Send]:
        """Approve or reject a node; an unknown one raises KeyError."""
        ...


class QueueSource(Protocol):
    """Reads schedules and dead letters."""

    def schedules(self) -> list[dict[str, object]]:
        """Return the schedules."""
        ...

    def dead(
        self, service: str = "", fault: str = "", older: float = 0.0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return dead letters."""
        ...


class BrokerView:
    """Reads the live broker, and the ledger for jobs that have left the memory."""

    def __init__(
        self,
        state: BrokerState,
        archive: Archive,
        links: Links,
        now: Callable[[], float],
        tasks: Mapping[str, tuple[str, ManagementTask]],
        directories: Mapping[str, str],
    ) -> None:
        self._state = state
        self._archive = archive
        self._links = links
        self._now = now
        #: Management tasks with a dialect's own form, and the link of the dialect.
        self._tasks = tasks
        self._directories = directories
        self._started_at = time.monotonic()
        #: Whether ZeroMQ peers have to prove a key; NorFab's name for it is `zmq_auth`.
        self.has_curve = False
        #: Schedules and dead letters. The server sets it.
        self.queue: QueueSource | None = None
        self.health = Health(now)
        #: Returns this broker as a node of its cluster. The server sets it.
        self.show_node: Callable[[], view.ClusterRow | None] = lambda: None

    # --- rows ---------------------------------------------------------------------------------

    def workers(self, *, with_builtin: bool = False) -> list[view.WorkerRow]:
        """Return the workers that are not built in, or all."""
        rows = view.workers(self._state)
        return [row for row in rows if with_builtin or row.dialect != "local"]

    def services(self, *, with_builtin: bool = False) -> list[view.ServiceRow]:
        """Return the services that have a worker that is not built in, or all."""
        own = set() if with_builtin else self.builtin_only()
        return [row for row in view.services(self._state) if row.name not in own]

    def builtin_only(self) -> set[ServiceName]:
        """Return the services that only built-in workers offer."""
        state = self._state
        found = [*state.registry.workers.values(), *state.absent.values()]
        own = {s for w in found if w.dialect == "local" for s in w.services}
        return own - {s for w in found if w.dialect != "local" for s in w.services}

    def clients(self) -> list[view.ClientRow]:
        """Return the clients heard from lately."""
        return view.clients(self._state)

    def links(self) -> list[Link]:
        """Return every link, with the counts of its messages."""
        return list(self._links.by_name.values())

    def totals(self) -> view.Totals:
        """Return the broker's counts; jobs of built-in services do not count as open."""
        totals = view.totals(self._state)
        workers = self._state.registry.workers.values()
        own = sum(len(w.held) for w in workers if w.is_builtin)
        return replace(totals, open_jobs=totals.open_jobs - own)

    def troubles(self) -> list[view.TroubleRow]:
        """Return what is wrong with the broker now."""
        return self.health.troubles()

    def task_failures(self) -> dict[str, int]:
        """Return the background tasks that failed since the start, by name."""
        return dict(self.health.task_failures)

    def cluster(self) -> view.ClusterRow | None:
        """Return this broker as a node of its cluster; None: it is alone."""
        return self.show_node()

    def job(self, job: str) -> dict[str, Any] | None:
        """Return the state of a job, from the ledger if it has left the memory."""
        status = view.job(self._state, JobId(job)) or self._archived(job)
        return _job_row(status) if status else None

    def _archived(self, job: str) -> JobStatus | None:
        return self._archive.status(JobId(job), self._now())

    def jobs(
        self,
        state: JobState | None,
        limit: int,
        service: str = "",
        *,
        with_builtin: bool = False,
    ) -> list[dict[str, Any]]:
        """Return the newest jobs; those of built-in services only on request."""
        left_out = set() if with_builtin else self.builtin_only()
        found = view.jobs(self._state, state, limit, left_out, service)
        return [_job_row(status) for status in found]

    def why(self, job: str) -> dict[str, Any]:
        """Return why a job is in its state; there is always an answer."""
        found = why(self._state, JobId(job))
        reason: str = found.reason
        if found.reason == "unknown" and (status := self._archived(job)):
            text = f"{status.state}; no longer in memory, read from the ledger"
            if status.fault is not None and status.fault.code is FaultCode.RESULT_GONE:
                text += f"; {status.fault.message}"
            reason, found = status.state, Why(found.reason, text)
        tree = family_tree(self._state, JobId(job))
        return {
            "job": job,
            "reason": reason,
            "words": found.words,
            "worker": found.worker,
            "candidates": [
                {"worker": c.worker, "standing": c.standing, "detail": c.detail}
                for c in found.candidates
            ],
            "parent": tree.parent,
            "position": tree.position,
            "children": [{f.name: getattr(c, f.name) for f in fields(c)} for c in tree.children],
            "child_states": dict(tree.counts),
        }

    def schedules(self) -> list[dict[str, object]]:
        """Return the schedules, with their last and next ticks."""
        return self.queue.schedules() if self.queue else []

    def dead(self, service: str, fault: str, older: float, limit: int) -> list[dict[str, Any]]:
        """Return dead letters, the newest first."""
        return self.queue.dead(service, fault, older, limit) if self.queue else []

    def dead_letters(self) -> int:
        """Return how many dead letters there are."""
        return len(self._state.store.queue.dead)

    def limits(self, service: str) -> list[dict[str, str]]:
        """Return the limits of a service and of its tasks, in words."""
        rules, base = self._state.store.queue.limits.rules, service.partition("@")[0]
        found = {"": rules.get(rule_name(base))} | {
            name.removeprefix(f"task {base} "): limit
            for name, limit in rules.items()
            if name.startswith(f"task {base} ")
        }
        return [{"task": task, "limit": str(limit)} for task, limit in found.items() if limit]

    def resources(self, service: str) -> list[dict[str, Any]]:
        """Return the resources and the workers that own them."""
        return [
            {"resource": resource, "workers": sorted(w.name for w in owners.values())}
            for resource, owners in sorted(self._state.registry.owners.items())
            if not service or any(service in w.services for w in owners.values())
        ]

    def nodes(self) -> list[dict[str, Any]]:
        """Return the compute nodes of every link that has some."""
        sides = [link.side for link in self._links.by_name.values()]
        now = self._now()
        return [row for side in sides if isinstance(side, NodeSide) for row in side.node_rows(now)]

    # --- NorFab's shapes ----------------------------------------------------------------------

    def norfab(self, task: str, kwargs: Mapping[str, object]) -> object:
        """Return the answer to one of NorFab's tasks in its own form."""
        link, answer = self._tasks[task]
        return answer(self._facts(link), kwargs)

    def _facts(self, name: str) -> BrokerFacts:
        state, links = self._state, self._links.by_name
        link = links.get(name)
        return BrokerFacts(
            now=self._now(),
            workers=self.workers(),
            services=self.services(),
            clients=self.clients(),
            beats_sent={w.name: w.beats_sent for w in state.registry.workers.values()},
            endpoint=link.endpoint if link else "",
            is_stopping=state.is_draining,
            process=self._process(),
            messaging=MessageCounts(
                sum(each.sent for each in links.values()),
                sum(each.received for each in links.values()),
                receive_failures=self._links.rejections.total,
            ),
            versions=_versions(),
            directories=self._directories,
            security={"zmq_auth": self.has_curve},
        )

    def _process(self) -> ProcessFacts:
        used = time.process_time()
        alive = max(time.monotonic() - self._started_at, 0.001)
        return ProcessFacts(
            cpu_percent=round(100 * used / alive, 1),
            memory_rss_mbyte=round(resident_bytes() / 2**20, 1),
            uptime_seconds=int(alive),
            threads=threading.active_count(),
        )


def _job_row(status: JobStatus) -> dict[str, object]:
    return {
        "job": status.job,
        "state": status.state,
        "service": status.service,
        "task": status.task,
        "target": status.target,
        "client": status.client,
        "workers": [p.worker for p in status.parts if p.worker],
        "resources": {p.worker: list(p.resources) for p in status.parts if p.resources},
        "attempts": max((p.attempt for p in status.parts), default=0),
        "fault": status.fault.code if status.fault else "",
        "detail": status.fault.message if status.fault else "",
        "submitted_at": round(status.submitted_at, 3),
        "ended_at": round(status.ended_at, 3),
    }


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in _PACKAGES}
    return {**found, "python": sys.version.split()[0], "platform": platform.platform()}


def resident_bytes() -> int:
    """Return this process's resident memory; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
