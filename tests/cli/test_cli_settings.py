"""`dragoman settings`: values and their sources; the page of the documentation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app
from dragoman.cli.settings import page

ROOT = Path(__file__).resolve().parents[2]


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_to_exit_code(lambda: app(["settings", *arguments])) == 0
    return capsys.readouterr().out


def test_the_page_of_the_documentation_is_up_to_date() -> None:
    # To update it: dragoman settings --markdown > docs/settings.md
    assert (ROOT / "docs" / "settings.md").read_text() == page()


def test_values_are_printed_with_their_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "d.toml"
    config.write_text("[nfp]\npatience = 7\n[services.math]\npatience = 2\n")
    monkeypatch.setenv("DRAGOMAN_DRAIN", "1")
    rows = json.loads(output(capsys, "--json", "--config", str(config), "--data", "here"))
    found = {row["setting"]: (row["value"], row["source"]) for row in rows}
    assert found["nfp.patience"] == (7.0, str(config))
    assert found["services.math.patience"] == (2.0, str(config))
    assert found["drain"] == (1.0, "DRAGOMAN_DRAIN")
    assert found["data"] == ("here", "flag")
    assert found["dcp.faults"] == ("empty", "default")


def test_a_name_and_changed_select(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(output(capsys, "ledger.seal_a").splitlines()) == 2
    assert "flag" in output(capsys, "--changed", "--data", "x")
    assert output(capsys, "--changed") == "no settings\n"


@pytest.mark.process
def test_a_warning_does_not_break_the_json_on_standard_output() -> None:
    command = [str(Path(sys.executable).with_name("dragoman")), "settings", "--json"]
    environment = os.environ | {"DRAGOMAN_DATTA": "x"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert isinstance(json.loads(done.stdout), list)
    assert "DRAGOMAN_DATTA" in done.stderr
