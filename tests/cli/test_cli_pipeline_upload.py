from pathlib import Path

import pytest
import typer
from tests.pipeline.records import History, export, listed, relist

from dragoman.cli.pipeline_upload import upload_until_stopped


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
