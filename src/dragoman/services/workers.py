"""Worker management, `mmi.service.worker`: the broker forwards the call to the workers.

SDK workers of every dialect answer these tasks; the label `agent` marks them. A client may also
call a worker directly: the task `mmi.NAME` of any of its services, with the worker as target.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from dragoman.model.value import value
from dragoman.services.base import ServiceFault, TaskFunction, TaskTable

WORKERS: Final = "mmi.service.worker"
TASKS: Final = (
    *("show_broker", "show_workers", "show_clients", "show_tasks"),
    *("restart", "shutdown", "disconnect"),
)
#: The label of SDK workers.
AGENT: Final = ("agent", "dragoman")

_UNABLE: Final = "not a worker of Dragoman's SDK, so it has no management tasks; call its own tasks"


@value
class AgentWorker:
    """A registered worker. Only SDK workers answer management tasks."""

    name: str
    service: str
    can_answer: bool = True


#: Calls one task of one worker.
Ask = Callable[[AgentWorker, str, dict[str, Any]], Awaitable[Any]]


class WorkerManagement:
    """The tasks of the worker management service."""

    def __init__(self, workers: Callable[[], list[AgentWorker]], ask: Ask) -> None:
        self._workers = workers
        self._ask = ask
        self.tasks = TaskTable("worker management", {name: self._task(name) for name in TASKS})

    def _task(self, name: str) -> TaskFunction:
        async def task(worker: Any = "all", **kwargs: Any) -> dict[str, Any]:
            found = self._find(worker)
            return {
                w.name: await self._ask(w, name, kwargs) if w.can_answer else {"error": _UNABLE}
                for w in found
            }

        return task

    def _find(self, worker: Any) -> list[AgentWorker]:
        names = [worker] if isinstance(worker, str) else worker
        found = [w for w in self._workers() if "all" in names or w.name in names]
        missing = {*names} - {"all"} - {w.name for w in found}
        if missing:
            raise ServiceFault(f"no worker has the name {', '.join(sorted(missing))}")
        if not found:
            raise ServiceFault("no worker is registered")
        unable = [w.name for w in found if not w.can_answer]
        if len(unable) == len(found) or ("all" not in names and unable):
            raise ServiceFault(f"{', '.join(unable)}: {_UNABLE}")
        return found
