"""What the management service sees: the live state, the ledger, and NorFab's own shapes."""

import asyncio
from typing import Any

import pytest
from tests.server.memory_server import MemoryServer

from dragoman.core.events import JobSubmitted, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.model.body import Body
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.server.broker_view import BrokerView
from dragoman.server.settings import BrokerSettings
from dragoman.server.wiring import management_tasks


def see(server: MemoryServer) -> BrokerView:
    state, archive = server.broker.state, server.loop.archive
    return BrokerView(
        state,
        archive,
        server.links,
        lambda: 101.0,
        management_tasks(BrokerSettings()),
        {"data": "d"},
    )


def submitted(job: str, service: str) -> JobSubmitted:
    return JobSubmitted(JobId(job), PeerId("nfp/c"), ServiceName(service), Body("nfp", (b"{}",)))


def joined(link: str, name: str, service: str, **more: Any) -> WorkerJoined:
    services = (ServiceName(service),)
    return WorkerJoined(PeerId(f"{link}/{name}"), WorkerName(name), services, dialect=link, **more)


@pytest.fixture
def view() -> BrokerView:
    server = MemoryServer()
    for event in (
        joined("nfp", "w", "math", resources=("r1", "r2")),
        joined("local", "b", "mmi", is_builtin=True),
        submitted("j1", "math"),
        ReplyReceived(PeerId("nfp/w"), JobId("j1"), ReplyKind.FINAL),
        submitted("j2", "none"),
        submitted("j3", "mmi"),
    ):
        server.broker.handle(event, 100.0)
    return see(server)


def test_why_always_has_an_answer(view: BrokerView) -> None:
    assert view.why("j1")["reason"] == "succeeded"
    assert view.why("j2")["reason"] == "no_service"
    assert view.why("never")["reason"] == "unknown"


@pytest.mark.process
def test_listings_leave_built_in_services_out(view: BrokerView) -> None:
    assert [row.name for row in view.workers()] == ["w"]
    assert [row.name for row in view.services()] == ["math", "none"]
    assert [row.peer for row in view.clients()] == ["nfp/c"]
    assert [row["name"] for row in view.norfab("show_workers", {})] == ["w"]  # type: ignore[attr-defined]


def test_jobs_are_listed_newest_first_and_by_state_without_built_in_services(
    view: BrokerView,
) -> None:
    assert [row["job"] for row in view.jobs(None, 10)] == ["j2", "j1"]
    assert [row["job"] for row in view.jobs(None, 1)] == ["j2"]
    assert [row["job"] for row in view.jobs(JobState.SUCCEEDED, 10)] == ["j1"]
    found = view.job("j1")
    assert found is not None
    assert found["workers"] == ["w"]
    assert view.job("never") is None


def test_totals_count_what_the_ledger_has(view: BrokerView) -> None:
    totals = view.totals()
    assert (totals.jobs, totals.open_jobs, totals.succeeded) == (3, 1, 1)


def test_resources_are_listed_with_their_owners(view: BrokerView) -> None:
    assert view.resources("math") == [
        {"resource": "r1", "workers": ["w"]},
        {"resource": "r2", "workers": ["w"]},
    ]
    assert view.resources("other") == []


def test_norfabs_own_tasks_are_answered_and_unknown_ones_raise(view: BrokerView) -> None:
    stats: Any = view.norfab("get_stats", {})
    assert stats["worker_count"] == 1
    versions: Any = view.norfab("show_broker_version", {})
    assert versions["dragoman"]
    norfabs = {"norfab", "pyyaml", "pyzmq", "psutil", "pydantic", "tornado", "jinja2", "python"}
    assert set(versions) >= norfabs | {"platform"}
    with pytest.raises(KeyError):
        view.norfab("fly", {})


def test_a_job_out_of_memory_is_still_explained() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        server.loop.submit(submitted("j", "s"))
        while not server.ledger.last_seq:  # noqa: ASYNC110
            await asyncio.sleep(0)

    server.run(scenario)
    server.broker.state.store.jobs.clear()
    assert see(server).why("j")["reason"] == "queued"
