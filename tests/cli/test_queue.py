"""Schedules, dead letters and pauses from the command line."""

import json
from typing import Any

import pytest
from tests.cli.conftest import Run


def own(text: str) -> str:
    """Return what the command printed, without the log of the worker in this process."""
    return "".join(line for line in text.splitlines(keepends=True) if "[warning" not in line)


def read(text: str) -> Any:
    """Read JSON that the command printed."""
    return json.loads(own(text))


def test_a_schedule_is_added_listed_run_and_removed(run: Run) -> None:
    add = ("schedule", "add", "yearly", "math", "add", "[2, 3]", "--cron", "0 0 1 1 *")
    code, table, _ = run(*add, "--zone", "Europe/Berlin")
    assert code == 0
    assert "0 0 1 1 * (Europe/Berlin)" in table
    assert "never" in run("schedule", "list")[1]
    job = run("schedule", "run", "yearly")[1].strip()
    assert run("result", job)[1] == "5\n"
    assert "paused" in run("schedule", "pause", "yearly")[1]
    (row,) = json.loads(run("schedule", "resume", "yearly", "--json")[1])
    assert row["next_tick"] > 0
    assert run("schedule", "remove", "yearly")[0] == 0
    assert run("schedule", "list")[1].startswith("no schedules")
    assert run("schedule", "run", "yearly")[0] == 1


def test_a_dead_letter_is_listed_retried_and_dropped(run: Run) -> None:
    job = own(run("submit", "math", "boom", "--retries", "1")[1]).split()[0]
    run("result", job)
    assert job in run("dead", "list", "--service", "math")[1]
    assert read(run("dead", "show", job)[1])["history"][-1]["kind"] == "ended"
    (row,) = read(run("dead", "retry", "--service", "math", "--json")[1])
    assert row["retries"] == job
    run("result", row["job"])
    assert run("dead", "drop", row["job"])[0] == 0
    assert own(run("dead", "list")[1]) == "no dead letters\n"
    assert run("dead", "drop")[0] == 2


def test_a_service_is_paused_and_resumed(run: Run) -> None:
    assert run("pause", "math", "--reason", "maintenance")[0] == 0
    job = run("submit", "math", "add", "1")[1].strip()
    assert "math is paused: maintenance" in run("why", job)[1]
    assert run("resume", "math")[0] == 0
    assert run("result", job)[1] == "1\n"


def test_a_worker_is_drained_listed_and_undrained(run: Run) -> None:
    (row,) = json.loads(run("workers", "--json")[1])
    name = row["name"]
    assert run("drain")[1] == "no drained workers\n"
    assert run("drain", name, "--reason", "new disk")[0] == 0
    job = run("submit", "math", "add", "1")[1].strip()
    assert f"{name} is drained: new disk" in " ".join(run("why", job)[1].split())
    assert name in run("drain")[1]
    assert run("undrain", name)[0] == 0
    assert run("result", job)[1] == "1\n"


@pytest.mark.parametrize("verb", ["submit", "call"])
def test_a_webhook_to_a_host_that_is_not_listed_is_refused(run: Run, verb: str) -> None:
    code, _, said = run(verb, "math", "add", "1", "--webhook", "https://elsewhere.example/done")
    assert code == 4
    assert "elsewhere.example" in said
    assert "[webhooks] hosts" in said


def test_a_result_is_forgotten(run: Run) -> None:
    job = run("submit", "math", "add", "[2, 3]", "--result-ttl", "600")[1].strip()
    assert run("result", job)[1] == "5\n"
    assert run("forget-result", job)[1] == f"forgot the result of job {job}\n"
    code, _, said = run("result", job)
    assert code == 1
    assert "was forgotten on request" in said
    assert json.loads(run("forget-result", job, "--json")[1])["job"] == job
