"""What a person asks the broker, answered from the live state and from the ledger."""

import asyncio
from typing import Any

import pytest
from tests.server.stage import Stage

from dragoman.core.events import JobSubmitted, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.dialects.nfp.management import UnknownTask
from dragoman.dialects.nfp.settings import INVENTORY, MANAGEMENT, Settings
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.server.management import Management


@pytest.fixture
def ask() -> Any:
    stage = Stage()
    desk = stage.broker.desk
    for event in (
        WorkerJoined(PeerId("nfp/w"), WorkerName("w"), (ServiceName("math"),), dialect="nfp"),
        WorkerJoined(PeerId("local/b"), WorkerName("b"), (ServiceName("mmi"),), dialect="local"),
        JobSubmitted(JobId("j1"), PeerId("nfp/c"), ServiceName("math"), Body("nfp", (b"{}",))),
        ReplyReceived(PeerId("nfp/w"), JobId("j1"), ReplyKind.FINAL),
        JobSubmitted(JobId("j2"), PeerId("nfp/c"), ServiceName("none"), Body("nfp", (b"{}",))),
    ):
        stage.broker.handle(event, 100.0)
    inventory = {"w*": {"hosts": ["a"]}}
    management = Management(
        desk, stage.loop.archive, stage.links, lambda: 101.0, Settings(), inventory, {"data": "d"}
    )

    def call(task: str, service: str = MANAGEMENT, **kwargs: Any) -> Any:
        return management(service, task, [], kwargs)

    return call


def test_why_always_has_an_answer(ask: Any) -> None:
    assert ask("why", job="j1")["reason"] == "succeeded"
    assert ask("why", job="j2")["reason"] == "no_service"
    assert ask("why", job="never")["reason"] == "unknown"


def test_listings_leave_the_house_out(ask: Any) -> None:
    assert [row["name"] for row in ask("list_workers")] == ["w"]
    assert [row["name"] for row in ask("list_services")] == ["math", "none"]
    assert [row["peer"] for row in ask("list_clients")] == ["nfp/c"]
    assert [row["name"] for row in ask("show_workers")] == ["w"]


def test_jobs_are_listed_the_newest_first_and_by_state(ask: Any) -> None:
    assert [row["job"] for row in ask("show_jobs")] == ["j2", "j1"]
    assert [row["job"] for row in ask("show_jobs", state="succeeded")] == ["j1"]
    assert ask("show_job", job="j1")["workers"] == ["w"]
    assert ask("show_job", job="never") is None


def test_totals_count_what_the_ledger_has(ask: Any) -> None:
    totals = ask("show_totals")
    assert (totals["jobs"], totals["open_jobs"], totals["succeeded"]) == (2, 1, 1)


def test_inventory_is_by_name(ask: Any) -> None:
    assert ask("get_inventory", INVENTORY, name="w1") == {"hosts": ["a"]}
    assert ask("get_inventory", INVENTORY, name="x") is None


def test_norfabs_own_tasks_are_answered_and_unknown_ones_are_said(ask: Any) -> None:
    assert ask("get_stats")["worker_count"] == 1
    assert ask("show_broker_version")["dragoman"]
    with pytest.raises(UnknownTask):
        ask("fly")
    with pytest.raises(UnknownTask):
        ask("fly", INVENTORY)


def test_a_wrong_state_is_an_error_in_words(ask: Any) -> None:
    with pytest.raises(ValueError, match="odd"):
        ask("show_jobs", state="odd")


def test_a_job_out_of_memory_is_still_explained() -> None:
    stage = Stage()

    async def play(stage: Stage) -> None:
        stage.loop.submit(
            JobSubmitted(JobId("j"), PeerId("x/c"), ServiceName("s"), Body("nfp", (b"",)))
        )
        while not stage.ledger.last_seq:  # noqa: ASYNC110
            await asyncio.sleep(0)

    stage.run(play)
    stage.broker.desk.book.jobs.clear()
    management = Management(
        stage.broker.desk, stage.loop.archive, stage.links, lambda: 1.0, Settings(), {}, {}
    )
    assert management(MANAGEMENT, "why", ["j"], {})["reason"] == "queued"  # type: ignore[index]
