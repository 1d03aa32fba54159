"""Management tasks, which every SDK worker answers beside its own tasks.

A call is a management call in three cases: its task begins with `mmi.`; its service is
`mmi.service.worker`; or the worker has no task of that name and management has one.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.sdk.url import Endpoint

SERVICE: Final = "mmi.service.worker"
PREFIX: Final = "mmi."
#: The label that tells the broker that a worker answers these tasks.
LABEL: Final = {"agent": "dragoman"}

#: Called with the resources that a worker gained and lost.
OnResources = Callable[[list[str], list[str]], None]


class ManagedWorker(Protocol):
    """What management needs of its worker."""

    endpoint: Endpoint
    name: str
    services: tuple[str, ...]
    concurrency: int

    @property
    def succeeded(self) -> int:
        """Jobs that succeeded since the start."""
        ...

    @property
    def failed(self) -> int:
        """Jobs that failed since the start."""
        ...

    def running(self) -> list[str]:
        """Return the client of each running job."""
        ...

    def longest_running(self) -> float:
        """Return how many seconds the oldest running job has run."""
        ...

    def silent_for(self) -> float:
        """Return how many seconds the broker has been silent."""
        ...

    def task_names(self) -> list[str]:
        """Return the names of its tasks."""
        ...

    def isolations(self) -> dict[str, str]:
        """Return where each task runs."""
        ...

    def task_process_ids(self) -> list[int]:
        """Return the ids of its task processes."""
        ...

    def describe_tasks(self) -> list[dict[str, object]]:
        """Return its tasks with their parameters."""
        ...

    def go_down(self) -> None:
        """Drain: finish the running jobs, then stop."""
        ...

    def join_again(self) -> None:
        """Reconnect and register again. Running jobs continue."""
        ...


class Management:
    """The management tasks of one worker."""

    def __init__(self, worker: ManagedWorker) -> None:
        self._worker = worker
        self._started = time.time()
        #: Resources by service and the broker's name for this worker, or for one of its slots.
        self._owned: dict[tuple[str, str], set[str]] = {}
        #: Ledger position of the last update of each: jobs may overtake each other.
        self._updated: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        #: Called, in the thread of a job, when the worker's resources change.
        self.on_resources: OnResources | None = None
        self._tasks: Mapping[str, Callable[..., object]] = {
            "show_broker": self.show_broker,
            "show_workers": self.show_workers,
            "show_clients": self.show_clients,
            "show_tasks": worker.describe_tasks,
            "restart": self.restart,
            "disconnect": self.restart,
            "shutdown": self.shutdown,
            "own": self.own,
        }

    @property
    def owned(self) -> list[str]:
        """The resources that the broker assigned to this worker."""
        return sorted({name for names in list(self._owned.values()) for name in names})

    def is_management_call(self, work: Assigned, is_own_task: bool) -> bool:
        """Return whether a call is a management call."""
        task = work.call.task.lower()
        if task.startswith(PREFIX) or work.service.lower() == SERVICE:
            return True
        return not is_own_task and task in self._tasks

    def run(self, call: Call) -> Answer:
        """Answer a call."""
        name = call.task.lower().removeprefix(PREFIX)
        task = self._tasks.get(name)
        if task is None:
            text = f"unknown management task {name!r}; known tasks: {', '.join(self._tasks)}"
            return Answer(fault=Fault(FaultCode.TASK_FAILED, text))
        try:
            return Answer(task(*call.args, **call.kwargs))
        except Exception as error:
            return Answer(fault=Fault(FaultCode.TASK_FAILED, f"{name}: {error}"))

    def show_broker(self) -> dict[str, object]:
        """Return the broker's URL and how long it has been silent."""
        worker = self._worker
        return {
            "url": str(worker.endpoint),
            "dialect": worker.endpoint.dialect,
            "silent_for": round(worker.silent_for(), 3),
        }

    def show_workers(self) -> list[dict[str, object]]:
        """Return this worker's services, tasks, counters and resources."""
        worker = self._worker
        return [
            {
                "name": worker.name,
                "services": list(worker.services),
                "tasks": worker.task_names(),
                "concurrency": worker.concurrency,
                "running": len(worker.running()),
                "longest_running_s": round(worker.longest_running(), 3),
                "is_full": len(worker.running()) >= worker.concurrency,
                "succeeded": worker.succeeded,
                "failed": worker.failed,
                "alive_for": round(time.time() - self._started, 3),
                "resources": self.owned,
                "isolation": worker.isolations(),
                "task_processes": worker.task_process_ids(),
            }
        ]

    def show_clients(self) -> list[dict[str, object]]:
        """Return the number of running jobs by client, if the dialect names clients."""
        counts = Counter(self._worker.running())
        return [{"client": client, "jobs": jobs} for client, jobs in sorted(counts.items())]

    def restart(self) -> dict[str, str]:
        """Reconnect and register again. Running jobs continue."""
        self._worker.join_again()
        return {"status": "joining again"}

    def shutdown(self) -> dict[str, str]:
        """Drain: finish the running jobs, then stop."""
        self._worker.go_down()
        return {"status": "shutting down"}

    def own(
        self, service: str, resources: list[str], seq: int = 0, worker: str = ""
    ) -> dict[str, int]:
        """Replace the worker's resources by the broker's list; ignore an older list."""
        key = (service, worker)
        with self._lock:
            if seq and seq < self._updated.get(key, 0):
                return {"gained": 0, "lost": 0}
            self._updated[key] = seq
            old = set(self.owned)
            self._owned[key] = set(resources)
            new = set(self.owned)
            if self.on_resources is not None and new != old:
                self.on_resources(sorted(new - old), sorted(old - new))
        return {"gained": len(new - old), "lost": len(old - new)}
