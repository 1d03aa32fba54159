import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli.pipeline import app, is_small
from dragoman.pipeline.session import JavaMissing

runner = CliRunner()


def test_every_way_to_run_it_is_listed() -> None:
    shown = runner.invoke(app, ["--help"]).output
    assert all(name in shown for name in ("run", "stream", "audit", "report", "query", "synth"))


def test_synth_writes_a_ledger_with_planted_faults(tmp_path: Path) -> None:
    asked = ["synth", str(tmp_path), "--events", "6000", "--seed", "3", "--plant", "all", "--json"]
    done = runner.invoke(app, asked)
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["records"] == 6_000
    assert "lease_broken" in said["plants"]
    listed = json.loads((tmp_path / "manifest.json").read_text())["segments"]
    assert listed[-1]["last"] == 6_000


def test_without_java_it_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_java() -> str:
        raise JavaMissing("Spark needs Java. Run: this")

    monkeypatch.setattr("dragoman.pipeline.session.ensure_java", no_java)
    done = runner.invoke(app, ["audit", "--tables", str(tmp_path)])
    assert done.exit_code == 2
    assert "Run: this" in done.output


def test_a_small_export_is_known_before_spark_is_started(tmp_path: Path) -> None:
    assert not is_small(str(tmp_path))
    manifest = tmp_path / "manifest.json"
    segment = {"file": "a", "first": 1, "last": 1_600, "rows": 1_600, "sha256": "", "bytes": 1}
    manifest.write_text(json.dumps({"segments": [segment]}))
    assert is_small(str(tmp_path))
    assert is_small(f"file://{tmp_path}")
    manifest.write_text(json.dumps({"segments": [segment | {"last": 10_000_000}]}))
    assert not is_small(str(tmp_path))
