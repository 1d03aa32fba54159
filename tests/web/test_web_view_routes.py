"""Looking at the broker over HTTP."""

import pytest
from tests.web.caller import Caller

from dragoman import Worker
from dragoman.web.problems import Problem
from dragoman.web.view_routes import ViewRoutes

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("math")]


def test_services_workers_and_clients_are_rows(caller: Caller, math: Worker) -> None:
    caller.post("/v1/call", {"service": "math", "task": "add", "args": [1, 2]})
    services = {row["name"]: row for row in caller.get("/v1/services").json["services"]}
    assert services["math"]["workers"] == 1
    (worker,) = caller.get("/v1/workers").json["workers"]
    assert (worker["name"], worker["dialect"]) == (math.name, "nfp")
    clients = {row["peer"] for row in caller.get("/v1/clients").json["clients"]}
    assert "http/127.0.0.1" in clients


def test_jobs_are_listed_newest_first_and_filtered(caller: Caller) -> None:
    ids = [
        caller.post("/v1/call", {"service": "math", "task": task, "args": args}).json["job"]
        for task, args in (("add", [1, 2]), ("fail", []), ("add", [3, 4]))
    ]
    listed = [row["job"] for row in caller.get("/v1/jobs?service=math&limit=3").json["jobs"]]
    assert listed == ids[::-1]
    failed = caller.get("/v1/jobs?state=failed").json["jobs"]
    assert [row["job"] for row in failed] == [ids[1]]
    assert caller.get("/v1/jobs?service=other").json["jobs"] == []


@pytest.mark.parametrize("query", ["state=lost", "limit=0", "limit=many", "limit=1e9"])
def test_a_filter_that_makes_no_sense_is_refused(caller: Caller, query: str) -> None:
    found = caller.get(f"/v1/jobs?{query}")
    assert found.status == 400
    assert found.is_problem


def test_health_and_readiness(caller: Caller) -> None:
    assert caller.get("/healthz").json == {"status": "ok"}
    assert caller.get("/readyz").json == {"status": "ready"}


def test_before_the_broker_is_there_nothing_can_be_seen() -> None:
    with pytest.raises(Problem, match="starting"):
        _ = ViewRoutes()._broker
