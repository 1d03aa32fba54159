"""Whether the broker takes jobs, from the command line."""

import json

import pytest
import typer
from tests.cli.conftest import Run

from dragoman.cli import status

TROUBLE = {
    "part": "ledger",
    "reason": "no space is left",
    "detail": "/data: full; free some space",
    "since": 1.0,
    "is_blocking": True,
}


def test_a_healthy_broker_is_ready(run: Run) -> None:
    code, text, _ = run("status")
    assert code == 0
    assert text.startswith("ready: it takes jobs\njobs: open jobs ")
    found = json.loads(run("status", "--json")[1])
    assert (found["status"], found["troubles"]) == ("ready", [])


def test_a_blocked_broker_says_what_to_do_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = dict.fromkeys(status._COUNTS, 0)
    found = {"status": "blocked", "troubles": [TROUBLE], "totals": totals}
    monkeypatch.setattr(status, "ask_broker", lambda url, task: found)
    with pytest.raises(typer.Exit) as leaving:
        status.status("nfp://127.0.0.1:1", as_json=False)
    assert leaving.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "blocked: it can acknowledge nothing" in shown
    assert "ledger: no space is left, for " in shown
    assert "  /data: full; free some space" in shown


def test_the_namespaces_of_a_broker_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {
        "status": "ready",
        "troubles": [],
        "totals": dict.fromkeys(status._COUNTS, 0),
        "namespaces": {"acme": "serving"},
    }
    monkeypatch.setattr(status, "ask_broker", lambda url, task: found)
    status.status("nfp://127.0.0.1:1", as_json=False)
    assert "namespace acme: serving" in capsys.readouterr().out
