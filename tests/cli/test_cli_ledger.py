"""`dragoman ledger`: back up, restore, verify, repair."""

import json
from pathlib import Path

import apsw
import pytest
from tests.ledger.test_backup import data as data
from typer.testing import CliRunner

from dragoman.cli.ledger import app
from dragoman.ledger.layout import LEDGER_FILE

RUN = CliRunner().invoke


def test_a_backup_is_made_verified_and_restored(data: Path, tmp_path: Path) -> None:
    made = RUN(app, ["backup", str(tmp_path / "copy"), "--data", str(data)])
    assert made.exit_code == 0
    assert "records 1 to 300, 1 segments" in made.output
    back = RUN(app, ["restore", str(tmp_path / "copy"), "--data", str(tmp_path / "new"), "--json"])
    assert json.loads(back.output)["last"] == 300
    assert RUN(app, ["verify", "--data", str(tmp_path / "new")]).exit_code == 0


def test_damage_is_said_repaired_and_listed(data: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(data / LEDGER_FILE))
    connection.execute("UPDATE records SET job = 'x' WHERE seq = 250")
    connection.close()
    found = RUN(app, ["verify", "--data", str(data)])
    assert found.exit_code == 1
    assert "record 250 does not match its checksum" in found.output
    mended = RUN(app, ["repair", str(tmp_path / "mended"), "--data", str(data)])
    assert mended.exit_code == 0
    assert "lost records: 250" in mended.output
    whole = RUN(app, ["verify", "--data", str(tmp_path / "mended"), "--json"])
    assert json.loads(whole.output) == {"is_sound": True, "problems": []}


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_missing_ledger_is_an_error(tmp_path: Path, command: str) -> None:
    failed = RUN(app, [command, str(tmp_path / "a"), "--data", str(tmp_path / "b")])
    assert failed.exception is not None
