"""Schedules, dead letters and the flow of services, for programs."""

from typing import Any, TypeAlias

from dragoman.sdk.blocking import Client
from dragoman.sdk.client import MANAGEMENT

_TIMEOUT = 30.0
#: A row of a list of the broker: names and JSON values.
Row: TypeAlias = dict[str, Any]


class _Managed:
    """Calls tasks of the broker's management."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def _ask(self, task: str, *args: object) -> Any:
        return self._client.options(timeout=_TIMEOUT).call(MANAGEMENT, task, *args)

    def _row(self, task: str, *args: object) -> Row:
        found: Row = self._ask(task, *args)
        return found

    def _rows(self, task: str, *args: object) -> list[Row]:
        found: list[Row] = self._ask(task, *args)
        return found


class Schedules(_Managed):
    """The broker's schedules: `Schedules(client).add("nightly", "reports", cron="0 3 * * *")`."""

    def add(self, name: str, service: str, task: str = "", **members: object) -> Row:
        """Add or replace a schedule. Members: see `docs/queue.md`."""
        wanted = {"name": name, "service": service, "task": task, **members}
        return self._row("add_schedule", wanted)

    def list(self) -> "list[Row]":
        """Return all schedules with their last and next ticks (seconds since the epoch)."""
        return self._rows("list_schedules")

    def pause(self, name: str) -> None:
        """Let a schedule make no jobs until it is resumed."""
        self._ask("pause_schedule", name)

    def resume(self, name: str) -> None:
        """Let a schedule make jobs again."""
        self._ask("resume_schedule", name)

    def run(self, name: str) -> str:
        """Submit the job of a schedule now; return its id."""
        return str(self._ask("run_schedule", name)["job"])

    def remove(self, name: str) -> None:
        """Remove a schedule. Its jobs go on."""
        self._ask("remove_schedule", name)


class DeadLetters(_Managed):
    """Jobs that died, or failed although they had retries."""

    def list(
        self, service: str = "", fault: str = "", older: float = 0.0, limit: int = 100
    ) -> "list[Row]":
        """Return dead letters, the newest first."""
        return self._rows("list_dead", service, fault, older, limit)

    def show(self, job: str) -> Row:
        """Return a dead letter with the history of its attempts."""
        return self._row("show_dead", job)

    def retry(self, job: str) -> str:
        """Submit it again; return the id of the new job."""
        return str(self._ask("retry_dead", job)["job"])

    def drop(self, job: str) -> None:
        """Drop it. The ledger keeps its history."""
        self._ask("drop_dead", job)


class Flow(_Managed):
    """The flow of jobs to services and workers."""

    def pause(self, service: str, reason: str = "") -> None:
        """Dispatch no jobs of a service until it is resumed. Running jobs go on."""
        self._ask("pause_service", service, reason)

    def resume(self, service: str) -> None:
        """Dispatch the jobs of a service again."""
        self._ask("resume_service", service)

    def drain(self, worker: str, reason: str = "") -> None:
        """Give a worker no more jobs until it is undrained. It finishes what it holds."""
        self._ask("drain_worker", worker, reason)

    def undrain(self, worker: str) -> None:
        """Give a drained worker jobs again."""
        self._ask("undrain_worker", worker)
