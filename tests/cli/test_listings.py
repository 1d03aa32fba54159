"""Looking at the broker from the command line."""

import json

import pytest
from tests.cli.conftest import Run


def test_listings_are_tables_for_people_and_json_for_programs(run: Run) -> None:
    run("call", "math", "add", "1")
    for command, name in (("services", "math"), ("workers", "w1"), ("jobs", "math")):
        code, table, _ = run(command)
        assert code == 0
        assert name in table
        rows = json.loads(run(command, "--json")[1])
        assert any(name in str(row) for row in rows)
    assert json.loads(run("clients", "--json")[1])


def test_jobs_can_be_filtered(run: Run) -> None:
    run("call", "math", "add", "1")
    rows = json.loads(run("jobs", "--state", "succeeded", "--limit", "1", "--json")[1])
    assert [row["state"] for row in rows] == ["succeeded"]
    assert run("jobs", "--state", "odd")[0] == 2


def test_an_empty_listing_is_a_sentence(run: Run) -> None:
    assert run("jobs", "--state", "dead") == (0, "no jobs\n", "")


def test_events_print_what_the_ledger_has_and_stop(run: Run) -> None:
    code, out, _ = run("events", "broker.joined", "--limit", "2")
    assert code == 0
    assert '"topic": "broker.joined"' in out
    code, followed, _ = run("events", "--follow", "--from", "0", "--limit", "3")
    assert followed.count('"seq"') >= 3


@pytest.mark.parametrize("command", ["services", "workers", "jobs"])
def test_the_brokers_own_services_are_listed_on_request_only(run: Run, command: str) -> None:
    _, usual, _ = run(command)
    code, everything, _ = run(command, "--all")
    assert code == 0
    assert "mmi.service.broker" not in usual
    assert "mmi.service.broker" in everything
