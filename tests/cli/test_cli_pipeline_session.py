import errno
import os
import socket
from pathlib import Path

import pytest
import typer
from tests.pipeline.records import History, export

from dragoman.cli.pipeline_session import find_pending, open_spark, spoken_errors, write_file
from dragoman.pipeline.delta import ConcurrentWriter, TablesDamaged
from dragoman.pipeline.manifest import ManifestDamaged, OtherLedger, SegmentMissing
from dragoman.pipeline.snapshot import Snapshot, StepNotFound, TablesOutdated, commit_snapshot


def test_what_a_run_would_read_is_known_without_spark(tmp_path: Path) -> None:
    history = History()
    for n in range(4):
        history.submit(f"j{n}")
    source = export(tmp_path / "export", history.records, 2)
    found = find_pending(source, str(tmp_path / "tables"))
    assert (found.after, found.upto, len(found.ranges), found.records) == (0, 4, 2, 4)
    commit_snapshot(str(tmp_path / "tables"), Snapshot(), Snapshot(1, 4), "step")
    found = find_pending(f"file://{source}", str(tmp_path / "tables"))
    assert (found.after, found.upto, found.ranges) == (4, 4, ())


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (SegmentMissing("gone", 3, 4), 1, "records 3 to 4"),
        (ConcurrentWriter("jobs"), 1, "another writer"),
        (TablesDamaged("jobs is gone"), 1, "jobs is gone"),
        (NotADirectoryError("x is a file"), 2, "x is a file"),
        (ManifestDamaged("manifest.json is damaged"), 1, "is damaged"),
        (OtherLedger("of another ledger"), 2, "another ledger"),
        (TablesOutdated("an earlier release"), 2, "earlier release"),
        (StepNotFound("no step at or before 3"), 2, "no step"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "no space is left"),
        (
            RuntimeError("java.io.IOException: No space left on device\n\tat x"),
            1,
            "no space is left",
        ),
        (
            RuntimeError("x\nClass org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat x"),
            2,
            "has no jar for it. Use `--engine duckdb`",
        ),
        (RuntimeError('No FileSystem for scheme "gs"'), 2, "--engine duckdb"),
        (
            OSError("Generic S3 error\n\x1b[31m\u21b3\x1b[0m <Error><Code>AccessDenied</Code>"),
            3,
            "it answered AccessDenied; look at the bucket",
        ),
        (
            OSError("Generic S3 error\n  \x1b[31m\u21b3\x1b[0m Connection refused (os error 111)"),
            3,
            "no answer (Connection refused (os error 111)); look at",
        ),
        (
            OSError("AWS Error NETWORK_CONNECTION during HeadObject: Could not connect to server"),
            3,
            "no answer (Could not connect to server)",
        ),
        (OSError("AWS Error ACCESS_DENIED during HeadObject"), 3, "it answered ACCESS_DENIED"),
    ],
)
def test_an_error_is_one_sentence_and_an_exit_code(
    error: Exception, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as raised, spoken_errors():
        raise error
    assert raised.value.exit_code == code
    shown = capsys.readouterr().err
    assert text in shown
    assert shown.count("\n") == 1


def test_an_error_of_ours_keeps_its_stack() -> None:
    with pytest.raises(ZeroDivisionError), spoken_errors():
        raise ZeroDivisionError


def test_a_connect_server_that_does_not_answer_is_said_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"sc://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(typer.Exit) as raised, open_spark("local[1]", address, "1g", []):
            pass
    assert raised.value.exit_code == 3
    assert f"no Spark Connect server answers at {address}" in capsys.readouterr().err


@pytest.mark.parametrize("pair", ["nonsense", "=1"])
def test_a_setting_that_is_no_pair_is_refused_with_an_example(
    pair: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as raised, open_spark("local[1]", "", "1g", [pair]):
        pass
    assert raised.value.exit_code == 2
    assert f"--conf {pair!r} is not name=value" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    write_file(out, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(typer.Exit) as raised:
        write_file(out, "new")
    assert (raised.value.exit_code, out.read_text()) == (1, "old")
    assert capsys.readouterr().err == f"dragoman: cannot write {out}: No space left on device\n"
