"""What the management service sees: the live state, the ledger, and NorFab's own shapes."""

import asyncio
from typing import Any

import pytest
from tests.server.stage import Stage

from dragoman.core.events import JobSubmitted, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.dialects.nfp.management import UnknownTask
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.body import Body
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.server.broker_view import BrokerView


def see(stage: Stage) -> BrokerView:
    state, archive = stage.broker.state, stage.loop.archive
    return BrokerView(state, archive, stage.links, lambda: 101.0, NfpSettings(), {"data": "d"})


def submitted(job: str, service: str) -> JobSubmitted:
    return JobSubmitted(JobId(job), PeerId("nfp/c"), ServiceName(service), Body("nfp", (b"{}",)))


def joined(link: str, name: str, service: str, **more: Any) -> WorkerJoined:
    services = (ServiceName(service),)
    return WorkerJoined(PeerId(f"{link}/{name}"), WorkerName(name), services, dialect=link, **more)


@pytest.fixture
def sight() -> BrokerView:
    stage = Stage()
    for event in (
        joined("nfp", "w", "math", resources=("r1", "r2")),
        joined("local", "b", "mmi", is_builtin=True),
        submitted("j1", "math"),
        ReplyReceived(PeerId("nfp/w"), JobId("j1"), ReplyKind.FINAL),
        submitted("j2", "none"),
        submitted("j3", "mmi"),
    ):
        stage.broker.handle(event, 100.0)
    return see(stage)


def test_why_always_has_an_answer(sight: BrokerView) -> None:
    assert sight.why("j1")["reason"] == "succeeded"
    assert sight.why("j2")["reason"] == "no_service"
    assert sight.why("never")["reason"] == "unknown"


@pytest.mark.process
def test_listings_leave_the_house_out(sight: BrokerView) -> None:
    assert [row.name for row in sight.workers()] == ["w"]
    assert [row.name for row in sight.services()] == ["math", "none"]
    assert [row.peer for row in sight.clients()] == ["nfp/c"]
    assert [row["name"] for row in sight.norfab("show_workers", {})] == ["w"]  # type: ignore[attr-defined]


def test_jobs_are_listed_the_newest_first_and_by_state_without_the_houses_own(
    sight: BrokerView,
) -> None:
    assert [row["job"] for row in sight.jobs(None, 10)] == ["j2", "j1"]
    assert [row["job"] for row in sight.jobs(None, 1)] == ["j2"]
    assert [row["job"] for row in sight.jobs(JobState.SUCCEEDED, 10)] == ["j1"]
    found = sight.job("j1")
    assert found is not None
    assert found["workers"] == ["w"]
    assert sight.job("never") is None


def test_totals_count_what_the_ledger_has(sight: BrokerView) -> None:
    totals = sight.totals()
    assert (totals.jobs, totals.open_jobs, totals.succeeded) == (3, 1, 1)


def test_resources_are_listed_with_their_owners(sight: BrokerView) -> None:
    assert sight.resources("math") == [
        {"resource": "r1", "workers": ["w"]},
        {"resource": "r2", "workers": ["w"]},
    ]
    assert sight.resources("other") == []


def test_norfabs_own_tasks_are_answered_and_unknown_ones_are_said(sight: BrokerView) -> None:
    stats: Any = sight.norfab("get_stats", {})
    assert stats["worker_count"] == 1
    versions: Any = sight.norfab("show_broker_version", {})
    assert versions["dragoman"]
    with pytest.raises(UnknownTask):
        sight.norfab("fly", {})


def test_a_job_out_of_memory_is_still_explained() -> None:
    stage = Stage()

    async def play(stage: Stage) -> None:
        stage.loop.submit(submitted("j", "s"))
        while not stage.ledger.last_seq:  # noqa: ASYNC110
            await asyncio.sleep(0)

    stage.run(play)
    stage.broker.state.store.jobs.clear()
    assert see(stage).why("j")["reason"] == "queued"
