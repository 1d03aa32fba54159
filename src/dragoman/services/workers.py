"""Worker management, `mmi.service.worker`: the house passes the question on to the workers.

Our own workers answer these tasks whatever their dialect (their label `agent` says who they are). A
client may also ask one directly: any task `mmi.NAME` of the worker's own service, by target.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from dragoman.model.value import value
from dragoman.services.base import ServiceFault, TaskFunction, TaskTable

WORKERS: Final = "mmi.service.worker"
TASKS: Final = ("show_broker", "show_workers", "show_clients", "restart", "shutdown", "disconnect")
#: What our own workers are labelled with.
AGENT: Final = ("agent", "dragoman")


@value
class AgentWorker:
    """A worker that answers for itself."""

    name: str
    service: str


#: Asks one worker one task.
Ask = Callable[[AgentWorker, str, dict[str, Any]], Awaitable[Any]]


class WorkerManagement:
    """The tasks of the worker management service."""

    def __init__(self, workers: Callable[[], list[AgentWorker]], ask: Ask) -> None:
        self._workers = workers
        self._ask = ask
        self.desk = TaskTable("worker management", {name: self._task(name) for name in TASKS})

    def _task(self, name: str) -> TaskFunction:
        async def task(worker: Any = "all", **kwargs: Any) -> dict[str, Any]:
            return {w.name: await self._ask(w, name, kwargs) for w in self._meant(worker)}

        return task

    def _meant(self, worker: Any) -> list[AgentWorker]:
        names = [worker] if isinstance(worker, str) else worker
        found = [w for w in self._workers() if "all" in names or w.name in names]
        missing = {*names} - {"all"} - {w.name for w in found}
        if missing:
            raise ServiceFault(f"no worker that answers for itself: {', '.join(sorted(missing))}")
        return found
