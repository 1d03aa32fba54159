"""The dashboard's data over HTTP: overview, searches, records, bodies."""

from typing import Any

import pytest
from tests.web.caller import Caller

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("math")]


def call(caller: Caller, task: str = "add", **headers: str) -> str:
    found = caller.post("/v1/call", {"service": "math", "task": task, "args": [1, 2]}, **headers)
    return str(found.json["job"])


def rows(caller: Caller, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = caller.get(f"/v1/history/jobs?{query}").json["rows"]
    return found


def test_a_job_is_found_by_its_client_and_its_state(caller: Caller) -> None:
    job = call(caller, Dragoman_Client="searcher")
    [found] = rows(caller, "client=searcher&state=succeeded")
    assert (found["job"], found["service"], found["attempts"]) == (job, "math", 1)
    assert rows(caller, "client=searcher&state=failed") == []
    assert rows(caller, f"text={job[:12]}")[0]["job"] == job


def test_the_timeline_has_every_record_and_the_bodies_are_readable(caller: Caller) -> None:
    job = call(caller)
    records = caller.get(f"/v1/jobs/{job}/records").json["records"]
    kinds = [r["kind"] for r in records if r["kind"] != "accepted"]
    assert kinds == ["submitted", "dispatched", "ended"]
    request = caller.get(f"/v1/jobs/{job}/bodies/{records[0]['seq']}").json
    assert request["call"] == {"task": "add", "args": [1, 2], "kwargs": {}}
    result = caller.get(f"/v1/jobs/{job}/bodies/{records[-1]['seq']}").json
    assert result["value"] == 3
    download = caller.get(f"/v1/jobs/{job}/bodies/{records[0]['seq']}?download")
    assert download.headers["content-disposition"].startswith("attachment")


def test_a_body_belongs_to_its_job(caller: Caller) -> None:
    one, other = call(caller), call(caller)
    seq = caller.get(f"/v1/jobs/{other}/records").json["records"][0]["seq"]
    assert caller.get(f"/v1/jobs/{one}/bodies/{seq}").status == 404
    assert caller.get("/v1/jobs/never/records").status == 404
    assert caller.get(f"/v1/jobs/never/bodies/{seq}").status == 404


def test_the_overview_counts_and_the_live_stream_repeats_it(caller: Caller) -> None:
    call(caller)
    found = caller.get("/v1/overview").json
    assert found["totals"]["succeeded"] >= 1
    assert len(found["series"]["submitted"]) == 360
    with caller.events("/v1/overview/live") as stream:
        first, second = (event for event, _ in zip(stream, range(2), strict=False))
    assert first["event"] == second["event"] == "overview"
    assert second["data"]["at"] > first["data"]["at"]


def test_other_lists_have_rows(caller: Caller) -> None:
    call(caller)
    services = caller.get("/v1/overview/services").json["services"]
    assert "math" in [row["name"] for row in services]
    assert caller.get("/v1/overview/bridges").json["bridges"][0]["worker"] == "nfp"
    assert caller.get("/v1/nodes").json == {"nodes": []}
    assert caller.get("/v1/resources").json == {"resources": []}
    assert caller.get("/v1/reports").json == {"reports": []}
    assert caller.get("/v1/reports/none.html").status == 404
    kinds = {r["kind"] for r in caller.get("/v1/history/records?kind=joined").json["rows"]}
    assert kinds == {"joined"}


@pytest.mark.parametrize("query", ["state=odd", "limit=0", "limit=x", "text=" + "a" * 400])
def test_a_bad_search_is_refused(caller: Caller, query: str) -> None:
    found = caller.get(f"/v1/history/jobs?{query}")
    assert found.status == 400
    assert found.is_problem
