"""Metrics: read from what the records add up to."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.source_tree import ROOT
from tests.web.caller import Caller

from dragoman.core.view import ClusterMemberRow, ClusterState
from dragoman.web.metrics import cluster_state

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("math")]


def values(caller: Caller) -> dict[tuple[str, tuple[str, ...]], float]:
    found = caller.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(found.body.decode())
        for sample in family.samples
    }


def test_a_scrape_counts_jobs_by_how_they_ended(caller: Caller) -> None:
    before = values(caller)
    for task in ("add", "fail"):
        caller.post("/v1/call", {"service": "math", "task": task, "args": [1, 2]})
    after = values(caller)

    def grown(name: str, *labels: str) -> float:
        return after[name, labels] - before[name, labels]

    assert grown("dragoman_jobs_submitted_total") == 2
    assert grown("dragoman_jobs_ended_total", "failed") == 1
    assert grown("dragoman_jobs_ended_total", "succeeded") == 1
    assert grown("dragoman_jobs_ended_total", "dead") == 0
    assert grown("dragoman_ledger_seq") >= 6
    assert grown("dragoman_link_received_total", "http") > 0
    assert after["dragoman_service_workers", ("math",)] == 1
    assert after["dragoman_workers", ("nfp", "alive")] == 1
    assert after["dragoman_draining", ()] == 0


def test_two_scrapes_without_work_between_them_agree_on_jobs(caller: Caller) -> None:
    first, second = values(caller), values(caller)
    names = {name for name, _ in first if name.startswith("dragoman_jobs")}
    assert names
    assert {k: v for k, v in first.items() if k[0] in names} == {
        k: v for k, v in second.items() if k[0] in names
    }


def test_the_leader_counts_the_nodes_and_copies_of_its_cluster() -> None:
    members = (ClusterMemberRow("a", "leader", 9, 0), ClusterMemberRow("b", "standby", 7, 2))
    state = ClusterState(3, members, "a", ("a", "b"), ("c",))
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in cluster_state(state)
        for sample in family.samples
    }
    assert found == {
        ("dragoman_cluster_nodes",): 3.0,
        ("dragoman_cluster_member_seq", "a"): 9.0,
        ("dragoman_cluster_member_seq", "b"): 7.0,
        ("dragoman_cluster_member_lag", "a"): 0.0,
        ("dragoman_cluster_member_lag", "b"): 2.0,
        ("dragoman_cluster_server_current", "a"): 1.0,
        ("dragoman_cluster_server_current", "b"): 1.0,
        ("dragoman_cluster_server_current", "c"): 0.0,
        ("dragoman_cluster_quorum",): 1.0,
    }


def test_every_metric_is_in_the_documentation(caller: Caller) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    table = " ".join(line for line in page.splitlines() if line.startswith("| `"))
    found = caller.get("/metrics").body.decode()
    names = {family.name for family in text_string_to_metric_families(found)}
    assert len(names) > 30
    # The table shortens names that begin alike: `dragoman_job_queue_seconds`, `_run_`.
    unknown = {n for n in names if n not in table and not _is_shortened(n, table)}
    assert unknown == set()


def _is_shortened(name: str, table: str) -> bool:
    words = name.split("_")
    ends = ("_".join(words[number:]) for number in range(2, len(words)))
    return any(f"`_{end}" in table for end in ends) or f"`_{words[2]}_`" in table
