"""Broker management, `mmi.service.broker`: what a person asks the broker, and tells it to do.

NorFab's own tasks have NorFab's shapes, which the server hands in; ours are added to them. Nothing
is decided here: looking is `ManagementView`, doing is `ManagementControl`, and both are the
server's.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from dragoman.core.view import ClientRow, ServiceRow, Totals, WorkerRow
from dragoman.model.job import JobState
from dragoman.services.base import ServiceFault, TaskFunction, TaskTable
from dragoman.services.logs import LogBuffer

MANAGEMENT: Final = "mmi.service.broker"


class ManagementView(Protocol):
    """What the service may look at."""

    def workers(self) -> list[WorkerRow]:
        """Return the workers that are not of the house."""
        ...

    def services(self) -> list[ServiceRow]:
        """Return their services."""
        ...

    def clients(self) -> list[ClientRow]:
        """Return who was heard lately."""
        ...

    def totals(self) -> Totals:
        """Return the broker's counts."""
        ...

    def job(self, job: str) -> dict[str, Any] | None:
        """Return how a job stands."""
        ...

    def jobs(self, state: JobState | None, limit: int) -> list[dict[str, Any]]:
        """Return the newest jobs that are not of the house."""
        ...

    def why(self, job: str) -> dict[str, Any]:
        """Say why a job is where it is."""
        ...

    def resources(self, service: str) -> list[dict[str, Any]]:
        """Return who owns what."""
        ...

    def nodes(self) -> list[dict[str, Any]]:
        """Return the compute nodes, connected or not."""
        ...

    def norfab(self, task: str, kwargs: Mapping[str, Any]) -> object:
        """Answer a task of NorFab's in its own shape. Raises LookupError if it has none."""
        ...


class ManagementControl(Protocol):
    """What the service may have done."""

    def restart(self, at_most: float | None) -> None:
        """Drain and begin anew in this process; every acknowledged job is kept."""
        ...

    def shutdown(self, at_most: float | None) -> None:
        """Drain and stop."""
        ...

    def disconnect(self, worker: str | None, at_once: bool) -> list[str]:
        """Let go of one worker, or of all; return their names."""
        ...

    def forget_answers(self, service: str) -> None:
        """Make the memoised answers of a service void."""
        ...

    def set_node(self, node: str, membership: str) -> bool:
        """Approve or reject a compute node; tell whether there is such a node."""
        ...


class BrokerManagement:
    """The tasks of the management service."""

    def __init__(
        self,
        sight: ManagementView,
        control: ManagementControl,
        logs: LogBuffer,
        inventory: Callable[[], Any],
        more: Mapping[str, TaskFunction] | None = None,
    ) -> None:
        self._sight = sight
        self._control = control
        self._inventory = inventory
        own: dict[str, TaskFunction] = {
            "why": sight.why,
            "show_job": sight.job,
            "show_jobs": self.show_jobs,
            "show_totals": lambda: row(sight.totals()),
            "list_services": lambda: [row(r) for r in sight.services()],
            "list_workers": lambda: [row(r) for r in sight.workers()],
            "list_clients": lambda: [row(r) for r in sight.clients()],
            "show_resources": lambda service="": sight.resources(service),
            "show_broker_inventory": self.show_broker_inventory,
            "get_logs": logs.read,
            "restart": self.restart,
            "shutdown": self.shutdown,
            "disconnect": self.disconnect,
            "forget_answers": self.forget_answers,
            "list_nodes": sight.nodes,
            "approve_node": lambda node: self._set_node(node, "APPROVED"),
            "reject_node": lambda node: self._set_node(node, "REJECTED"),
        }
        shaped = {name: self._norfab(name) for name in NORFAB_TASKS}
        self.desk = TaskTable("management", {**shaped, **own, **(more or {})})

    def _norfab(self, task: str) -> TaskFunction:
        return lambda **kwargs: self._sight.norfab(task, kwargs)

    def show_jobs(self, state: str = "", limit: int = 100) -> list[dict[str, Any]]:
        """List the newest jobs, optionally of one state."""
        try:
            wanted = JobState(state) if state else None
        except ValueError:
            raise ServiceFault(f"{state!r} is no state; try {', '.join(JobState)}") from None
        return self._sight.jobs(wanted, limit)

    def show_broker_inventory(self) -> Any:
        """Return the broker's part of the inventory, without its secrets."""
        return self._inventory()

    def restart(self, timeout: float | None = None) -> dict[str, Any]:
        """Begin anew after running jobs had `timeout` seconds to end; none is lost."""
        self._control.restart(_seconds(timeout))
        return {"status": "restarting"}

    def shutdown(self, timeout: float | None = None) -> dict[str, Any]:
        """Stop after running jobs had `timeout` seconds to end; the rest is safe in the ledger."""
        self._control.shutdown(_seconds(timeout))
        return {"status": "shutting down"}

    def disconnect(
        self, worker: str | None = None, name: str | None = None, at_once: bool = False
    ) -> dict[str, Any]:
        """Let go of one worker or all: when they have finished what they hold, or at once."""
        whom = worker or name
        found = self._control.disconnect(None if whom == "all" else whom, at_once)
        if whom not in (None, "all") and not found:
            raise ServiceFault(f"there is no worker {whom!r}")
        return {"status": "disconnecting", "workers": found}

    def forget_answers(self, service: str) -> dict[str, Any]:
        """Make the memoised answers of a service void: the next question is worked out anew."""
        self._control.forget_answers(service)
        return {"status": "forgotten", "service": service}

    def _set_node(self, node: str, membership: str) -> dict[str, Any]:
        if not self._control.set_node(node, membership):
            raise ServiceFault(f"no compute node {node!r} is known")
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
        raise ServiceFault(f"timeout: {timeout!r} is no number of seconds") from None
    return max(0.0, seconds)


def row(found: Any) -> dict[str, Any]:
    """Write a row of the view as a plain object."""
    return {name: _plain(getattr(found, name)) for name in found.__slots__}


def _plain(item: Any) -> Any:
    if isinstance(item, tuple):
        return [_plain(each) for each in item]
    return round(item, 3) if isinstance(item, float) else item
