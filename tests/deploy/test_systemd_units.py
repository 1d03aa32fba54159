"""The systemd units: systemd's own check, and what the pages promise."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from dragoman.cli.main import app

UNITS = sorted((Path(__file__).resolve().parents[2] / "deploy" / "systemd").glob("*.service"))


def read(unit: Path) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(unit)
    return parsed


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    # Only the program's path changes: systemd looks whether it is there.
    text = unit.read_text().replace("/opt/dragoman/bin/dragoman", shutil.which("true") or "")
    copy = tmp_path / unit.name.replace("@.", "@math.")
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if copy.name in line] == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_notifies_is_watched_drains_and_restarts(unit: Path) -> None:
    service = read(unit)["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert int(service["WatchdogSec"]) > 0
    assert int(service["TimeoutStopSec"]) > 60
    assert service["Restart"] in ("always", "on-failure")
    assert service["User"] != "root"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@pytest.mark.parametrize(
    ("setting", "value"),
    [("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("CapabilityBoundingSet", "")],
)
def test_a_unit_is_hardened(unit: Path, setting: str, value: str) -> None:
    assert read(unit)["Service"][setting] == value


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_command_of_a_unit_exists_with_its_options(unit: Path) -> None:
    words = read(unit)["Service"]["ExecStart"].split()
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {option for each in commands[words[1]].params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known
