"""`dragoman cluster backup / restore / remove`: what they print, and what they refuse."""

import json
from pathlib import Path

import pytest
from tests.cli.test_cli_cluster import members
from tests.ledger.entries import fill
from typer.testing import CliRunner

from dragoman.cli.main import app
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.memory_stream import MemoryStream, StreamConnection
from dragoman.ledger.replicated import ReplicatedLedger

run = CliRunner().invoke


def fill_copy(data: Path, last: int) -> None:
    ledger = ReplicatedLedger(data / LEDGER_FILE, StreamConnection(MemoryStream()), patience=0.01)
    ledger.lead()
    fill(ledger, last)
    ledger._close()


def test_a_backup_begins_a_new_cluster(tmp_path: Path) -> None:
    from dragoman.ledger.backup import backup

    fill_copy(tmp_path / "old", 20)
    backup(tmp_path / "old", tmp_path / "backup")
    words = ["cluster", "restore", str(tmp_path / "backup"), "--data", str(tmp_path / "a")]
    shown = run(app, words)
    assert shown.exit_code == 0, shown.output
    assert "records 1 to 20" in shown.output
    assert "Start this node first" in shown.output
    copy = ReplicatedLedger(tmp_path / "a" / LEDGER_FILE, StreamConnection(MemoryStream()))
    assert copy.is_restored
    copy._close()
    again = run(app, words)
    assert "has a ledger already" in str(again.exception)


def test_a_node_with_a_part_of_a_stream_is_not_restored(tmp_path: Path) -> None:
    (tmp_path / "a" / "cluster" / "jetstream").mkdir(parents=True)
    shown = run(app, ["cluster", "restore", str(tmp_path), "--data", str(tmp_path / "a")])
    assert "part of a cluster's stream" in str(shown.exception)


@pytest.mark.interop
def test_a_backup_says_how_far_its_node_is_behind_and_a_live_node_stays(tmp_path: Path) -> None:
    fill_copy(tmp_path, 7)
    where = ["--data", str(tmp_path)]
    with members(tmp_path):
        words = ["cluster", "backup", str(tmp_path / "backup"), "--json", *where]
        shown = run(app, words)
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.output)["missing"] == 2
        refused = run(app, ["cluster", "remove", "b", *where])
        assert "node b answers; stop it first" in str(refused.exception)
