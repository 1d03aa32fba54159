"""Broker management, `mmi.service.broker`: queries and commands for the broker.

NorFab's own tasks keep NorFab's form; ours are added. This module decides nothing: the server
implements `ManagementView` for queries and `ManagementControl` for commands.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from dragoman.core.view import ClientRow, ServiceRow, Totals, TroubleRow, WorkerRow
from dragoman.model.job import JobState
from dragoman.services.base import ServiceFault, TaskFunction, TaskTable
from dragoman.services.logs import LogBuffer

MANAGEMENT: Final = "mmi.service.broker"


class ManagementView(Protocol):
    """The queries of the service."""

    def workers(self, *, with_builtin: bool = False) -> list[WorkerRow]:
        """Return the workers that are not built in, or all."""
        ...

    def services(self, *, with_builtin: bool = False) -> list[ServiceRow]:
        """Return their services."""
        ...

    def clients(self) -> list[ClientRow]:
        """Return the clients heard from lately."""
        ...

    def totals(self) -> Totals:
        """Return the broker's counts."""
        ...

    def troubles(self) -> list[TroubleRow]:
        """Return what is wrong with the broker now."""
        ...

    def job(self, job: str) -> dict[str, object] | None:
        """Return the state of a job."""
        ...

    def jobs(
        self, state: JobState | None, limit: int, *, with_builtin: bool = False
    ) -> list[dict[str, object]]:
        """Return the newest jobs; those of built-in services only on request."""
        ...

    def why(self, job: str) -> dict[str, object]:
        """Return why a job is in its state."""
        ...

    def resources(self, service: str) -> list[dict[str, object]]:
        """Return the resources and the workers that own them."""
        ...

    def nodes(self) -> list[dict[str, object]]:
        """Return the compute nodes, connected or not."""
        ...

    def norfab(self, task: str, kwargs: Mapping[str, object]) -> object:
        """Return the answer to one of NorFab's tasks in its own form. Raises LookupError."""
        ...


class ManagementControl(Protocol):
    """The commands of the service."""

    def restart(self, at_most: float | None) -> None:
        """Drain, then start again in this process; every acknowledged job is kept."""
        ...

    def shutdown(self, at_most: float | None) -> None:
        """Drain and stop."""
        ...

    def disconnect(self, worker: str | None, at_once: bool) -> list[str]:
        """Disconnect one worker, or all; return their names."""
        ...

    def forget_answers(self, service: str) -> None:
        """Drop the memoised answers of a service."""
        ...

    @property
    def seal(self) -> Callable[[], Awaitable[int]]:
        """Exports every record to the segments; returns the number of the last one."""
        ...

    def set_node(self, node: str, membership: str) -> bool:
        """Approve or reject a compute node; tell whether there is such a node."""
        ...


class BrokerManagement:
    """The tasks of the management service."""

    def __init__(
        self,
        view: ManagementView,
        control: ManagementControl,
        logs: LogBuffer,
        inventory: Callable[[], object],
        more: Mapping[str, TaskFunction] | None = None,
    ) -> None:
        self._view = view
        self._control = control
        self._inventory = inventory
        own: dict[str, TaskFunction] = {
            "why": view.why,
            "show_job": view.job,
            "show_jobs": self.show_jobs,
            "show_totals": lambda: row(view.totals()),
            "show_status": self.show_status,
            "list_services": self.list_services,
            "list_workers": self.list_workers,
            "list_clients": lambda: [row(r) for r in view.clients()],
            "show_resources": lambda service="": view.resources(service),
            "show_broker_inventory": self.show_broker_inventory,
            "get_logs": logs.read,
            "restart": self.restart,
            "shutdown": self.shutdown,
            "disconnect": self.disconnect,
            "forget_answers": self.forget_answers,
            "seal": self.seal,
            "list_nodes": view.nodes,
            "approve_node": lambda node: self._set_node(node, "APPROVED"),
            "reject_node": lambda node: self._set_node(node, "REJECTED"),
        }
        shaped = {name: self._norfab(name) for name in NORFAB_TASKS}
        self.tasks = TaskTable("management", {**shaped, **own, **(more or {})})

    def _norfab(self, task: str) -> TaskFunction:
        return lambda **kwargs: self._view.norfab(task, kwargs)

    def show_status(self) -> dict[str, object]:
        """Tell whether the broker takes jobs, what is wrong, and its counts."""
        totals, troubles = self._view.totals(), self._view.troubles()
        is_blocked = any(each.is_blocking for each in troubles)
        status = "draining" if totals.is_draining else "blocked" if is_blocked else "ready"
        troubles_shown = [row(each) for each in troubles]
        return {"status": status, "troubles": troubles_shown, "totals": row(totals)}

    def list_services(self, with_builtin: bool = False) -> list[dict[str, object]]:
        """List the services; the broker's own only on request."""
        return [row(each) for each in self._view.services(with_builtin=with_builtin)]

    def list_workers(self, with_builtin: bool = False) -> list[dict[str, object]]:
        """List the workers; the broker's own only on request."""
        return [row(each) for each in self._view.workers(with_builtin=with_builtin)]

    def show_jobs(
        self, state: str = "", limit: int = 100, with_builtin: bool = False
    ) -> list[dict[str, object]]:
        """List the newest jobs, optionally of one state, or with those of built-in services."""
        try:
            wanted = JobState(state) if state else None
        except ValueError:
            raise ServiceFault(f"{state!r} is no job state; use {', '.join(JobState)}") from None
        return self._view.jobs(wanted, limit, with_builtin=with_builtin)

    def show_broker_inventory(self) -> object:
        """Return the broker's part of the inventory, without its secrets."""
        return self._inventory()

    def restart(self, timeout: float | None = None) -> dict[str, object]:
        """Restart after running jobs had `timeout` seconds to end; no job is lost."""
        self._control.restart(_seconds(timeout))
        return {"status": "restarting"}

    def shutdown(self, timeout: float | None = None) -> dict[str, object]:
        """Stop after running jobs had `timeout` seconds to end; the ledger keeps the rest."""
        self._control.shutdown(_seconds(timeout))
        return {"status": "shutting down"}

    def disconnect(
        self, worker: str | None = None, name: str | None = None, at_once: bool = False
    ) -> dict[str, object]:
        """Disconnect one worker or all: after they finish the jobs they hold, or at once."""
        wanted = worker or name
        found = self._control.disconnect(None if wanted == "all" else wanted, at_once)
        if wanted not in (None, "all") and not found:
            raise ServiceFault(f"there is no worker {wanted!r}")
        return {"status": "disconnecting", "workers": found}

    def forget_answers(self, service: str) -> dict[str, object]:
        """Drop the memoised answers of a service: the next call runs again."""
        self._control.forget_answers(service)
        return {"status": "forgotten", "service": service}

    async def seal(self) -> dict[str, object]:
        """Export the records so far, so that the pipeline can read them now."""
        return {"status": "sealed", "upto": await self._control.seal()}

    def _set_node(self, node: str, membership: str) -> dict[str, object]:
        if not self._control.set_node(node, membership):
            raise ServiceFault(f"there is no compute node {node!r}")
        return {"node": node, "membership": membership.lower()}


#: Tasks whose answers NorFab's clients check field by field.
NORFAB_TASKS: Final = (
    "show_workers",
    "get_stats",
    "get_status",
    "show_broker",
    "show_broker_version",
    "show_services",
    "show_clients",
)


def _seconds(timeout: Any) -> float | None:
    if timeout is None:
        return None
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        raise ServiceFault(f"timeout: {timeout!r} is not a number of seconds") from None
    return max(0.0, seconds)


def row(found: Any) -> dict[str, object]:
    """Return a row of the view as a plain object."""
    return {name: _plain(getattr(found, name)) for name in found.__slots__}


def _plain(item: object) -> object:
    if isinstance(item, tuple):
        return [_plain(each) for each in item]
    return round(item, 3) if isinstance(item, float) else item
