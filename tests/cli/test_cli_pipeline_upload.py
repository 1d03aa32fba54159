import os
from pathlib import Path

import pytest
import typer
from tests.pipeline.records import History, export, listed, relist

from dragoman.cli import pipeline_upload
from dragoman.cli.pipeline_upload import upload_until_stopped
from dragoman.server import upload_turn
from dragoman.server.lease import TTL, Lease
from dragoman.server.upload_turn import UploadTurn
from dragoman.testing.memory_bucket import MemoryBucket


def make_export(folder: Path, jobs: int = 4) -> str:
    history = History()
    for n in range(jobs):
        history.submit(f"j{n}")
    return export(folder, history.records, 2)


def test_an_upload_that_looks_again_copies_what_is_new_then_and_says_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make_export(tmp_path / "export")
    whole = listed(tmp_path / "export")
    relist(tmp_path / "export", whole[:1])
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        relist(tmp_path / "export", whole)
        if len(waits) == 3:
            raise KeyboardInterrupt

    upload_until_stopped(source, str(tmp_path / "copy"), 5, False, wait)
    shown = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[2] for line in shown] == ["2", "4"]
    assert waits == [5, 5, 5]


def test_the_target_of_another_ledger_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "copy")
    upload_until_stopped(make_export(tmp_path / "a", 6), target, 0, True)
    with pytest.raises(typer.Exit) as raised:
        upload_until_stopped(make_export(tmp_path / "b", 2), target, 0, True)
    assert raised.value.exit_code == 2
    assert "choose another target" in capsys.readouterr().err


def test_in_a_cluster_one_copies_and_the_others_say_who(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = make_export(tmp_path / "export"), str(tmp_path / "copy")
    bucket = MemoryBucket(TTL, lambda: 0.0)
    b, c = (UploadTurn(Lease(bucket, node, TTL, lambda: 0.0), lambda: False) for node in "bc")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        raise KeyboardInterrupt

    try:
        upload_until_stopped(source, target, 60, False, wait, b)
        upload_until_stopped(source, target, 60, False, wait, c)
        upload_until_stopped(source, target, 0, False, wait, c)
    finally:
        b.close()
        c.close()
    assert waits == [60, 1.0]
    copied, waiting = capsys.readouterr().out.splitlines()
    assert "has every record up to 4" in copied
    assert waiting == f"node b copies to {target} now; nothing was copied here"


def test_a_node_that_does_not_run_cannot_know_whose_turn_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(source: str, target: str) -> None:
        raise ConnectionError("no NATS server answers")

    monkeypatch.setattr(upload_turn, "find_turn", refuse)
    with pytest.raises(typer.Exit) as raised:
        pipeline_upload.upload("target", "source", 0, False)
    assert raised.value.exit_code == 1
    assert "start this node" in capsys.readouterr().err


def test_a_copy_in_a_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        pipeline_upload.upload(str(tmp_path / "copy"), make_export(tmp_path / "export"), 0, False)
    finally:
        os.umask(before)
    found = [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in found} == {0}
