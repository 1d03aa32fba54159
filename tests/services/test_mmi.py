"""The management service: which tasks there are, and what they have done."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from dragoman.core.view import ClientRow, ServiceRow, Totals, TroubleRow, WorkerRow
from dragoman.model.content import Call
from dragoman.model.job import JobState
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.services.base import ServiceFault, ServiceSession
from dragoman.services.logs import LogBuffer
from dragoman.services.mmi import NORFAB_TASKS, BrokerManagement


class View:
    """A small world to look at."""

    def workers(self, *, with_builtin: bool = False) -> list[WorkerRow]:
        services = (ServiceName("math"),)
        row = WorkerRow(WorkerName("w"), PeerId("nfp/w"), "nfp", services, "alive", 0, None, 3,
                        15.0, 0.12345, 9.0, "anonymous")  # fmt: skip
        return [row]

    def services(self, *, with_builtin: bool = False) -> list[ServiceRow]:
        return [ServiceRow(ServiceName("math"), 1, 1, 0, 0, 0)]

    def clients(self) -> list[ClientRow]:
        return [ClientRow(PeerId("nfp/c"), 2, 1.0, 2.0)]

    def totals(self) -> Totals:
        return Totals(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, False)

    def troubles(self) -> list[TroubleRow]:
        return [TroubleRow("ledger", "full", "free some space", 1.0, True)]

    def job(self, job: str) -> dict[str, Any] | None:
        return {"job": job}

    def jobs(
        self, state: JobState | None, limit: int, *, with_builtin: bool = False
    ) -> list[dict[str, Any]]:
        return [{"state": state, "limit": limit}]

    def why(self, job: str) -> dict[str, Any]:
        return {"job": job, "reason": "queued"}

    def resources(self, service: str) -> list[dict[str, Any]]:
        return [{"resource": "r", "workers": [service]}]

    def nodes(self) -> list[dict[str, Any]]:
        return [{"node": "n-1"}]

    def norfab(self, task: str, kwargs: Mapping[str, Any]) -> object:
        return {"task": task, **kwargs}


class Control:
    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []

    def restart(self, at_most: float | None) -> None:
        self.done.append(("restart", at_most))

    def shutdown(self, at_most: float | None) -> None:
        self.done.append(("shutdown", at_most))

    def disconnect(self, worker: str | None, at_once: bool) -> list[str]:
        self.done.append(("disconnect", worker, at_once))
        return ["w"] if worker in (None, "w") else []

    def forget_answers(self, service: str) -> None:
        self.done.append(("forget", service))

    async def seal(self) -> int:
        return 7

    def set_node(self, node: str, membership: str) -> bool:
        self.done.append(("node", node, membership))
        return node == "n-1"


CONTROL = Control()
MMI = BrokerManagement(View(), CONTROL, LogBuffer(), lambda: {"broker": {}})


def ask(task: str, **kwargs: Any) -> Any:
    session = ServiceSession("j", "nfp/c", lambda kind, said: None)
    return MMI.tasks(Call(task, (), kwargs), session)


def test_rows_are_plain_objects() -> None:
    (row,) = ask("list_workers")
    assert (row["name"], row["services"], row["silent_for"]) == ("w", ["math"], 0.123)
    assert ask("list_services")[0]["name"] == "math"
    assert ask("list_clients")[0]["peer"] == "nfp/c"
    assert ask("show_totals")["jobs"] == 1
    assert ask("show_resources", service="math") == [{"resource": "r", "workers": ["math"]}]


def test_jobs_are_looked_up() -> None:
    assert ask("why", job="j1")["reason"] == "queued"
    assert ask("show_job", job="j1") == {"job": "j1"}
    assert ask("show_jobs", state="dead") == [{"state": JobState.DEAD, "limit": 100}]
    with pytest.raises(ServiceFault, match="'odd' is no job state"):
        ask("show_jobs", state="odd")


@pytest.mark.parametrize("task", NORFAB_TASKS)
def test_norfabs_tasks_keep_norfabs_form(task: str) -> None:
    assert ask(task, service="all") == {"task": task, "service": "all"}


def test_the_brokers_own_inventory_and_logs_are_shown() -> None:
    assert ask("show_broker_inventory") == {"broker": {}}
    assert ask("get_logs", last=5) == []


def test_restart_and_shutdown_have_a_time_limit() -> None:
    CONTROL.done.clear()
    assert ask("restart") == {"status": "restarting"}
    assert ask("shutdown", timeout=2) == {"status": "shutting down"}
    assert CONTROL.done == [("restart", None), ("shutdown", 2.0)]
    with pytest.raises(ServiceFault, match="not a number of seconds"):
        ask("shutdown", timeout="soon")


def test_memoised_answers_are_dropped() -> None:
    CONTROL.done.clear()
    ask("forget_answers", service="math")
    assert CONTROL.done == [("forget", "math")]


def test_records_are_sealed_on_request() -> None:
    assert asyncio.run(ask("seal")) == {"status": "sealed", "upto": 7}


def test_workers_are_disconnected_by_name_or_all() -> None:
    CONTROL.done.clear()
    assert ask("disconnect", worker="w")["workers"] == ["w"]
    assert ask("disconnect", name="all", at_once=True)["workers"] == ["w"]
    assert CONTROL.done == [("disconnect", "w", False), ("disconnect", None, True)]
    with pytest.raises(ServiceFault, match="'nobody'"):
        ask("disconnect", worker="nobody")


def test_nodes_are_shown_approved_and_rejected() -> None:
    assert ask("list_nodes") == [{"node": "n-1"}]
    assert ask("approve_node", node="n-1") == {"node": "n-1", "membership": "approved"}
    assert ask("reject_node", node="n-1") == {"node": "n-1", "membership": "rejected"}
    assert CONTROL.done[-2:] == [("node", "n-1", "APPROVED"), ("node", "n-1", "REJECTED")]
    with pytest.raises(ServiceFault, match="no compute node"):
        ask("reject_node", node="n-2")


def test_the_status_says_that_the_broker_is_blocked_and_why() -> None:
    found = ask("show_status")
    assert found["status"] == "blocked"
    assert found["troubles"][0]["detail"] == "free some space"
