import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli.pipeline import app
from dragoman.pipeline.session import JavaMissing
from dragoman.pipeline.snapshot import Snapshot, commit_snapshot

runner = CliRunner()
WAYS = ("run", "stream", "audit", "report", "query", "synth", "history", "compact", "vacuum")


def test_every_way_to_run_it_is_listed() -> None:
    shown = runner.invoke(app, ["--help"]).output
    assert all(name in shown for name in WAYS)


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
    done = runner.invoke(app, ["audit", "--engine", "spark", "--tables", str(tmp_path)])
    assert done.exit_code == 2
    assert "Run: this" in done.output


def test_a_run_with_nothing_new_needs_no_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner.invoke(app, ["synth", str(tmp_path / "export"), "--events", "500"])
    tables = str(tmp_path / "tables")
    commit_snapshot(tables, Snapshot(), Snapshot(1, 500), "step")
    monkeypatch.setattr("dragoman.pipeline.session.open_session", None)
    asked = ["run", "--source", str(tmp_path / "export"), "--tables", tables]
    done = runner.invoke(app, asked)
    assert (done.exit_code, "every record up to 500" in done.output) == (0, True), done.output
    assert json.loads(runner.invoke(app, [*asked, "--json"]).output)["records"] == 0


def test_an_export_without_a_manifest_is_said_before_spark_starts(tmp_path: Path) -> None:
    done = runner.invoke(app, ["run", "-s", str(tmp_path), "-t", str(tmp_path / "tables")])
    assert done.exit_code == 2
    assert "dragoman ledger seal" in done.output


def test_a_small_ledger_needs_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dragoman.pipeline.session.open_session", None)
    place = ["--tables", str(tmp_path / "tables")]
    asked = ["synth", str(tmp_path / "export"), "--events", "6000", "--plant", "lease_broken"]
    assert runner.invoke(app, asked).exit_code == 0
    asked = ["run", "--source", str(tmp_path / "export"), *place, "--json"]
    done = runner.invoke(app, asked)
    assert json.loads(done.stdout)["written"]["audit"] == 1, done.output
    found = runner.invoke(app, ["audit", *place])
    assert (found.exit_code, "lease_broken" in found.output) == (1, True)
    page = tmp_path / "report.html"
    assert runner.invoke(app, ["report", *place, "--out", str(page)]).exit_code == 0
    assert "lease broken" in page.read_text()
    sql = ["query", "select count(*) as n from jobs", "--engine", "duckdb", "--json", *place]
    (row,) = json.loads(runner.invoke(app, sql).stdout)
    assert row["n"] > 1_000
    without_engine = [word for word in sql if word not in ("--engine", "duckdb")]
    assert json.loads(runner.invoke(app, without_engine).stdout) == [row]
    sql[1] = "selec 1"
    wrong = runner.invoke(app, sql)
    assert (wrong.exit_code, "selec" in wrong.output) == (2, True)
    once = ["stream", "--once", "--source", str(tmp_path / "export"), *place]
    assert runner.invoke(app, once).exit_code == 0


def test_an_engine_that_does_not_exist_is_said(tmp_path: Path) -> None:
    done = runner.invoke(app, ["audit", "--engine", "duck", "--tables", str(tmp_path)])
    assert (done.exit_code, "choose auto, duckdb or spark" in done.output) == (2, True)


def test_a_checkpoint_without_spark_is_refused_because_it_would_have_no_effect() -> None:
    done = runner.invoke(app, ["stream", "--once", "--checkpoint", "x"])
    assert done.exit_code == 2
    assert "--checkpoint is only for --engine spark" in done.output


def test_a_cluster_that_cannot_reach_a_bucket_is_refused_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.pipeline.session.open_session", None)
    asked = ["audit", "--master", "spark://host:7077", "--tables", "s3://bucket/tables"]
    done = runner.invoke(app, asked)
    assert (done.exit_code, "Add it: `--conf spark.jars" in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    "words", [["report"], ["run", "--report"], ["bill", "--out"], ["notebook", "--out"]]
)
def test_a_file_that_cannot_be_written_is_said_before_any_work(
    tmp_path: Path, words: list[str]
) -> None:
    command = [*words[:1], "--tables", str(tmp_path / "tables"), *(words[1:] or ["--out"])]
    done = runner.invoke(app, [*command, str(tmp_path / "no" / "such.html")])
    assert (done.exit_code, "no; make it first" in done.output) == (2, True), done.output
    (tmp_path / "folder.html").mkdir()
    done = runner.invoke(app, [*command, str(tmp_path / "folder.html")])
    assert (done.exit_code, "is a folder; name a file" in done.output) == (2, True), done.output
