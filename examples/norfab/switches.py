"""A NorFab worker, as NorFab's documentation describes one. It does not use Dragoman."""

from typing import Any

from norfab.core.worker import Job, NFPWorker, Task
from norfab.models import Result


class Switches(NFPWorker):  # type: ignore[misc]
    """The worker of some switches."""

    def __init__(
        self,
        inventory: Any,
        broker: str,
        worker_name: str,
        exit_event: Any = None,
        init_done_event: Any = None,
        log_level: str | None = None,
        log_queue: Any = None,
    ) -> None:
        super().__init__(inventory, broker, "switches", worker_name, exit_event, log_level)
        self.site = inventory[worker_name]["site"]
        init_done_event.set()

    @Task()  # type: ignore[untyped-decorator]
    def version(self, job: Job, vendor: str = "acme") -> Result:
        """Return the software version of the switches."""
        job.event(f"asking the switches of {self.site}")
        return Result(result=f"{vendor} 4.2 in {self.site}")
